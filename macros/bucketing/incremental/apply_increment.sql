{#-
  Brings the rows of one run into an existing table whose layout and columns are already those of the config.

    insert_overwrite, microbatch  partitioned: replaces the partitions that have new rows, in one INSERT OVERWRITE
                                  otherwise: replaces the whole table
    append, merge                 partitioned: rewrites the touched partitions by way of a staged table
                                  otherwise: rewrites the table, since stock Spark replaces no less than a partition

  source: quoted name of a view of the new rows
  columns: reconciled columns with expressions, in the table's order
-#}
{% macro apply_increment(relation, source, columns, layout, increment, existing) -%}
  {%- set overwrite = increment.strategy in ['insert_overwrite', 'microbatch'] -%}
  {%- if overwrite and layout.partition_by -%}
    {% do spark_bucketing.overwrite_partitions(relation, source, columns, layout) %}
  {%- elif overwrite -%}
    {% do spark_bucketing.build_table(relation, source, columns, layout, existing) %}
  {%- else -%}
    {%- set input = spark_bucketing.load_input(relation, source, columns, layout) -%}
    {%- set plain = spark_bucketing.without_expressions(columns) -%}
    {%- if increment.strategy == 'merge' -%}
      {% do spark_bucketing.validate_merge(relation, input, plain, increment) %}
    {%- endif -%}
    {%- if layout.partition_by -%}
      {%- set touched = spark_bucketing.touched_partitions(relation, input, layout, increment) -%}
      {%- if touched -%}
        {%- set kept = spark_bucketing.partition_predicate(spark_bucketing.order_columns(plain, layout.partition_by)[-(layout.partition_by | length):], touched) -%}
        {% do spark_bucketing.rewrite_partitions(relation, spark_bucketing.new_content(relation, input, plain, increment, kept), plain, layout, touched) %}
      {%- else -%}
        {% call statement('main') -%} select 'no new rows' as message {%- endcall %}
      {%- endif -%}
    {%- else -%}
      {% do spark_bucketing.build_table(relation, spark_bucketing.new_content(relation, input, plain, increment, 'true'), plain, layout, existing) %}
    {%- endif -%}
    {% do spark_bucketing.drop_relation_with_files(input) %}
  {%- endif -%}
{%- endmacro %}
