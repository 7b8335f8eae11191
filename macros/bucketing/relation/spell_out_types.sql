{#- Replaces abbreviated types in a list of columns with the complete types. The left join returns one row, and reads nothing from the relation. -#}
{% macro spell_out_types(source, columns) -%}
  {%- set types = spark_bucketing.quote_columns(columns | map(attribute='name'), 'typeof(r.%s)') -%}
  {%- set row = run_query('select ' ~ types ~ ' from (select 1) as one left join ' ~ source ~ ' as r on false').rows[0] -%}
  {%- for column in columns -%}
    {%- do column.update({'type': row[loop.index0]}) -%}
  {%- endfor -%}
{%- endmacro %}
