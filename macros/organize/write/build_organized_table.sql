{#-
  Replaces all rows of an organized table, or creates it, without the session extension. Warns if the strategy `exact` did not write the planned number of
  files.

  source: string, SQL query in parentheses
  columns: list of {name, type[, expression]}
  layout: dict, from resolve_organized_layout()
  existing: dict, table_layout() of the table to replace, or none
-#}
{% macro build_organized_table(relation, source, columns, layout, existing) -%}
  {%- set input = spark_bucketing.load_input(relation, source, columns, layout, sorted_by=spark_bucketing.file_partition_columns(layout)) -%}
  {%- set plan = spark_bucketing.plan_files(relation, input, layout, spark_bucketing.rows_per_file(input, columns, layout, relation, existing)) -%}
  {%- set tmp = spark_bucketing.intermediate_relation(relation, 'tmp') -%}
  {% do spark_bucketing.drop_relation_with_files(tmp) %}
  {% do spark_bucketing.execute_sql(spark_bucketing.bucketed_table_ddl(tmp, columns, layout)) %}
  {% do spark_bucketing.insert_organized(spark_bucketing.insert_clause(tmp, layout, overwrite=false), input, plan, columns, layout) %}
  {%- if layout.file_strategy == 'exact' and plan.rows -%}
    {#- Lists the table's directory without opening any files. The rows are correct in any case. -#}
    {%- set files = spark_bucketing.directory_files_sql(spark_bucketing.table_location(tmp, layout)) -%}
    {%- set found = run_query('select count(*) from (' ~ files ~ ')').rows[0][0] | int -%}
    {%- if found != plan.files -%}
      {% do exceptions.warn("Model `" ~ model.name ~ "`: Spark wrote " ~ '{:,}'.format(found) ~ ' files instead of the planned ' ~ '{:,}'.format(plan.files) ~ '.') %}
    {%- endif -%}
  {%- endif -%}
  {% do spark_bucketing.write_file_statistics(tmp, columns, layout) %}
  {% do spark_bucketing.mark_written(tmp) %}
  {% do spark_bucketing.validate_build(tmp, spark_bucketing.found_build(tmp), context['__spark_bucketing_build']) %}
  {% do spark_bucketing.swap_relations(tmp, relation, existing) %}
  {% do spark_bucketing.drop_tables([plan.relation, input]) %}
{%- endmacro %}


{#-
  Adds files to an organized table, or replaces the partitions of the new rows, without the session extension. The arguments are those of
  build_organized_table().
-#}
{% macro add_organized_rows(relation, source, columns, layout, existing, overwrite) -%}
  {%- set input = spark_bucketing.load_input(relation, source, columns, layout, sorted_by=spark_bucketing.file_partition_columns(layout)) -%}
  {%- set plan = spark_bucketing.plan_files(relation, input, layout, spark_bucketing.rows_per_file(input, columns, layout, relation, existing)) -%}
  {%- if plan.rows -%}
    {#- The files of this run are newer than 10 minutes ago, even if clocks differ. -#}
    {%- set since = (modules.datetime.datetime.now().timestamp() - 600) | int * 1000000 -%}
    {% do spark_bucketing.insert_organized(spark_bucketing.insert_clause(relation, layout, overwrite), input, plan, columns, layout) %}
    {% do spark_bucketing.write_file_statistics(relation, spark_bucketing.table_columns(spark_bucketing.quote_relation(relation)), layout, since) %}
  {%- else -%}
    {% call statement('main') -%} select 'no new rows' as message {%- endcall %}
  {%- endif -%}
  {% do spark_bucketing.drop_tables([plan.relation, input]) %}
{%- endmacro %}
