{#- Query for rows that are known already, as strings; without rows an empty one with the same columns. -#}
{% macro literal_rows_sql(names, rows) -%}
  {%- set tuples = [] -%}
  {%- for row in rows or [names] -%}
    {%- set literals = [] -%}
    {%- for value in row -%}
      {%- do literals.append(spark_bucketing.string_literal(value)) -%}
    {%- endfor -%}
    {%- do tuples.append('(' ~ literals | join(', ') ~ ')') -%}
  {%- endfor -%}
  select * from values
    {{ tuples | join(',\n    ') }}
    as failures ({{ spark_bucketing.quote_columns(names) }})
  where {{ 'true' if rows else 'false' }}
{%- endmacro %}
