{#-
  Rewrites all rows of a table in the config's layout and columns, together with those of this run, beside it, and swaps:
  should anything about the new rows fail, the table is as it was.

  rows: from aligned_rows()
  input: the table from load_input()
-#}
{% macro rewrite_table(relation, rows, input, columns, layout, increment, existing) -%}
  {%- set kept = 'true' -%}
  {%- if increment.strategy in ['insert_overwrite', 'microbatch'] -%}
    {%- set replaced = spark_bucketing.partition_values(layout.partition_by, spark_bucketing.quote_relation(input)) -%}
    {%- set kept = 'not ' ~ spark_bucketing.partition_predicate(spark_bucketing.partition_columns(columns, layout), replaced) -%}
  {%- endif -%}
  {% do spark_bucketing.build_table(relation, spark_bucketing.new_content(rows, input, columns, increment, kept), columns, layout, existing) %}
{%- endmacro %}
