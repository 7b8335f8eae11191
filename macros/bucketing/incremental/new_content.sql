{#-
  Returns a query for the rows that the table, or the partitions that `kept` selects, will contain after the run.

  rows: string, SQL of the table, or of a query in parentheses for its rows
  new_rows: string, the same for the rows of this run
  kept: string, SQL condition on the table's rows
-#}
{% macro new_content(rows, new_rows, columns, increment, kept) -%}
  {%- if increment.strategy == 'merge' -%}
    {{ return(spark_bucketing.merged_rows(rows, new_rows, columns, increment, kept)) }}
  {%- endif -%}
  {%- set names = spark_bucketing.quote_columns(columns | map(attribute='name') | list) -%}
  {{ return('(select ' ~ names ~ ' from ' ~ rows ~ ' where ' ~ kept ~ ' union all select ' ~ names ~ ' from ' ~ new_rows ~ ')') }}
{%- endmacro %}
