{#-
  Builds an intermediate table from the rows of the input, and returns it. Warns if the strategy `exact` did not write the planned number of files.

  input: relation from load_input(), sorted by the partition columns
  plan: dict, from plan_files()
  columns: list of {name, type}
  layout: dict, from resolve_organized_layout()
-#}
{% macro build_organized_table(relation, input, plan, columns, layout) -%}
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
  {{ return(tmp) }}
{%- endmacro %}
