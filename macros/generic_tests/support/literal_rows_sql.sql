{#- Query for rows that are known already, as strings; without rows an empty one with the same columns. -#}
{% macro literal_rows_sql(names, rows) -%}
  select * from values
    ({{ spark_bucketing.literal_rows(rows or [names]) | map('join', ', ') | join('),\n    (') }})
    as failures ({{ spark_bucketing.quote_columns(names) }})
  where {{ 'true' if rows else 'false' }}
{%- endmacro %}
