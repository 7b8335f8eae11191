{#- The tables beside the model's own are dropped without asking: none of them may be another model, seed or snapshot. -#}
{% macro validate_intermediate_names(relation, intermediate_relations) -%}
  {%- set reserved = intermediate_relations | map(attribute='identifier') | map('lower') | list -%}
  {%- for node in graph.nodes.values() if node.resource_type in ['model', 'seed', 'snapshot'] and node.schema == relation.schema -%}
    {%- if (node.alias or node.name) | lower in reserved -%}
      {% do spark_bucketing.raise_config_error('alias', relation.identifier ~ ', while ' ~ node.resource_type ~ " '" ~ node.name ~ "' is the table " ~ (node.alias or node.name),
          'that no other node is called ' ~ reserved | join(', ') ~ ': these tables come and go while the model is built', "another alias for '" ~ node.name ~ "'") %}
    {%- endif -%}
  {%- endfor -%}
{%- endmacro %}
