{#- Returns a query that returns the given rows of strings. If there are no rows, the result is empty but has the same columns. -#}
{% macro literal_rows_sql(names, rows) -%}
  select * from values
    ({{ spark_bucketing.literal_rows(rows or [names]) | map('join', ', ') | join('),\n    (') }})
    as failures ({{ spark_bucketing.quote_columns(names) }})
  where {{ 'true' if rows else 'false' }}
{%- endmacro %}
