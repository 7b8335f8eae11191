{#- The left join keeps one row when the relation is empty, and nothing of the relation is read. -#}
{% macro spell_out_types(source, columns) -%}
  {%- set expressions = [] -%}
  {%- for column in columns -%}
    {%- do expressions.append('typeof(r.' ~ spark_bucketing.quote_identifier(column.name) ~ ')') -%}
  {%- endfor -%}
  {%- set row = run_query(
      'select ' ~ expressions | join(', ') ~ ' from (select 1) as one left join '
      ~ source ~ ' as r on false'
  ).rows[0] -%}
  {%- for column in columns -%}
    {%- do column.update({'type': row[loop.index0]}) -%}
  {%- endfor -%}
{%- endmacro %}
