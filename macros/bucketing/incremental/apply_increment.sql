{#-
  Brings loaded rows into a table whose layout and columns are already those of the config.

  input: the table from load_input()
  columns: list of {name, type} in the table's order
-#}
{% macro apply_increment(relation, input, columns, layout, increment, existing) -%}
  {%- set rows = spark_bucketing.quote_relation(relation) -%}
  {%- if increment.strategy in ['insert_overwrite', 'microbatch'] -%}
    {% do spark_bucketing.overwrite_partitions(relation, spark_bucketing.quote_relation(input), columns, layout) %}
  {%- elif not layout.partition_by -%}
    {% do spark_bucketing.build_table(relation, spark_bucketing.new_content(rows, input, columns, increment, 'true'), columns, layout, existing) %}
  {%- else -%}
    {%- set touched = spark_bucketing.touched_partitions(relation, input, layout, increment) -%}
    {%- if touched -%}
      {%- set kept = spark_bucketing.partition_predicate(spark_bucketing.partition_columns(columns, layout), touched) -%}
      {% do spark_bucketing.rewrite_partitions(relation, spark_bucketing.new_content(rows, input, columns, increment, kept), columns, layout, touched, existing) %}
    {%- else -%}
      {% call statement('main') -%} select 'no new rows' as message {%- endcall %}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}
