{#-
  Returns table_layout() of the table in `range_boundaries_from`, with its `relation`.

  Raises an error unless both tables have the same partition and implicit partition columns. The range columns may have different names.
-#}
{% macro range_boundaries_table(layout) -%}
  {%- set relation = ref(*layout.range_boundaries_from.names) if layout.range_boundaries_from.of == 'ref' else source(*layout.range_boundaries_from.names) -%}
  {%- set known = spark_bucketing.existing_names(relation, [relation.identifier]) -%}
  {%- set other = spark_bucketing.table_layout(relation) if relation.identifier | lower in known else {'range_by': []} -%}
  {%- if not other.range_by -%}
    {% do spark_bucketing.raise_config_error('range_boundaries_from', relation, 'an existing table of a model with `range_by`',
        'build that model first, or remove `range_boundaries_from`') %}
  {%- endif -%}
  {%- for setting in ['partition_by', 'implicit_partition_by'] if other[setting] | map('lower') | list != layout[setting] | map('lower') | list -%}
    {% do spark_bucketing.raise_config_error('range_boundaries_from', relation ~ ', whose ' ~ setting ~ ' is ' ~ (other[setting] | join(', ') or 'none'),
        'the `' ~ setting ~ '` of this model: ' ~ (layout[setting] | join(', ') or 'none'), setting ~ '=' ~ other[setting]) %}
  {%- endfor -%}
  {{ return(dict(other, relation=relation)) }}
{%- endmacro %}
