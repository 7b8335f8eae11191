{#-
  Builds an intermediate table, and then replaces the whole table with it.

  The macro runs the model's query once, and stores its result. Spark reads the stored rows up to three times: to count, to measure and to write them.
  Any number of tasks can write them.

  source: string, SQL query in parentheses
  columns: list of {name, type}
  layout: dict, from resolve_organized_layout()
  existing: dict, table_layout() of the table to replace, or none
-#}
{% macro build_organized_table(relation, source, columns, layout, existing) -%}
  {%- set tmp = spark_bucketing.intermediate_relation(relation, 'tmp') -%}
  {%- set input = spark_bucketing.load_input(relation, source, columns, layout, sorted_by=spark_bucketing.file_partition_columns(layout)) -%}
  {%- set rows_per_file = spark_bucketing.rows_per_file(input, columns, layout, relation, existing) -%}
  {%- set plan = spark_bucketing.plan_files(relation, input, layout, rows_per_file) -%}
  {% do spark_bucketing.create_bucketed_table(tmp, columns, layout) %}
  {% do spark_bucketing.insert_organized(tmp, input, plan, columns, layout) %}
  {% do spark_bucketing.verify_files(tmp, plan, layout) %}
  {% do spark_bucketing.write_file_statistics(tmp, columns, layout) %}
  {% do spark_bucketing.mark_written(tmp) %}
  {% do spark_bucketing.validate_build(tmp, spark_bucketing.found_build(tmp), context['__spark_bucketing_build']) %}
  {% do spark_bucketing.swap_relations(tmp, relation, existing) %}
  {% do spark_bucketing.drop_tables([plan.relation, input]) %}
{%- endmacro %}
