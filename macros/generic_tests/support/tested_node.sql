{#-
  Returns the tested model, seed or snapshot, or none. If the test is attached to a node, this is the tested node, even if its relation differs
  because of --defer. Otherwise, the macro searches for the node that has this relation.
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
