{#-
  Query for what the table, or its partitions that `kept` selects, is to contain after the run.

  rows: SQL of the table, or of a query in parentheses for its rows
  new_rows: the same for the rows of this run
-#}
{% macro new_content(rows, new_rows, columns, increment, kept) -%}
  {%- if increment.strategy == 'merge' -%}
    {{ return(spark_bucketing.merged_rows(rows, new_rows, columns, increment, kept)) }}
  {%- endif -%}
  {%- set names = spark_bucketing.quote_columns(columns | map(attribute='name') | list) -%}
  {{ return('(select ' ~ names ~ ' from ' ~ rows ~ ' where ' ~ kept ~ ' union all select ' ~ names ~ ' from ' ~ new_rows ~ ')') }}
{%- endmacro %}
