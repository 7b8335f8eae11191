{#- Raises an error if another node has the name of an intermediate table, because runs drop these tables. -#}
{% macro validate_intermediate_names(relation, intermediate_relations) -%}
  {%- set reserved = intermediate_relations | map(attribute='identifier') | map('lower') | list -%}
  {%- for node in graph.nodes.values() if node.resource_type in ['model', 'seed', 'snapshot'] and node.schema == relation.schema -%}
    {%- if (node.alias or node.name) | lower in reserved -%}
      {% do spark_bucketing.raise_config_error('alias', relation.identifier ~ ', while ' ~ node.resource_type ~ ' `' ~ node.name ~ '` is the table ' ~ (node.alias or node.name),
          'no other node with the name of an intermediate table: ' ~ reserved | join(', '), 'choose another alias for `' ~ node.name ~ '`') %}
    {%- endif -%}
  {%- endfor -%}
{%- endmacro %}
