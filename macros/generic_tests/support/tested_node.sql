{#-
  The model, seed or snapshot under test, or none: the node that the test is attached to (under --defer its relation is
  another one), otherwise the one that makes this relation.
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
