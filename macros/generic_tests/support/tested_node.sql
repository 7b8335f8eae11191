{#-
  Returns the tested model, seed or snapshot, or none. The macro prefers the node to which the test is attached, whose relation may differ with
  --defer. Without such a node, it searches for the node with this relation.
-#}
{% macro tested_node(relation) -%}
  {%- if model.attached_node -%}
    {{ return(graph.nodes[model.attached_node]) }}
  {%- endif -%}
  {%- for node in graph.nodes.values() if node.resource_type in ['model', 'seed', 'snapshot'] -%}
    {%- set place = [node.schema | lower, node.alias | lower] -%}
    {%- if place == [relation.schema | lower, relation.identifier | lower] and node.config.materialized != 'ephemeral' -%}
      {{ return(node) }}
    {%- endif -%}
  {%- endfor -%}
  {{ return(none) }}
{%- endmacro %}
