{#-
  Adds the rows of one run to the table of an organized incremental model.

    merge             rewrites the files that contain or receive changed rows
    append            adds files to the partitions of the new rows, in one INSERT
    insert_overwrite  replaces the partitions of the new rows: with the session extension, publishes a build; without it, in one INSERT.
                      Rebuilds an unpartitioned table

  source: string, SQL query in parentheses
  columns: list of {name, type} of the query's columns
  existing: dict, table_layout() of the table
-#}
{% macro add_organized_increment(relation, source, columns, layout, increment, existing) -%}
  {%- set there = spark_bucketing.table_columns(spark_bucketing.quote_relation(relation)) -%}
  {%- set reconciled = spark_bucketing.reconcile_columns(increment.on_schema_change, columns, there, syncs=false) -%}
  {% do spark_bucketing.fill_columns(reconciled.columns, layout) %}
  {% do spark_bucketing.validate_organized_layout(layout, existing) %}
  {#- File statistics contain the column names of the table. The query may spell the same names in another case. -#}
  {%- set layout = dict(layout, partition_by=existing.partition_by, range_by=existing.range_by, implicit_partition_by=existing.implicit_partition_by) -%}
  {%- if increment.strategy == 'insert_overwrite' and not layout.partition_by -%}
    {% do spark_bucketing.build_organized_table(relation, source, reconciled.columns, layout, existing) %}
    {{ return(none) }}
  {%- endif -%}
  {%- if increment.strategy == 'merge' -%}
    {% do spark_bucketing.merge_organized(relation, source, reconciled, layout, increment, existing) %}
    {{ return(none) }}
  {%- endif -%}
  {%- set input = spark_bucketing.load_input(relation, source, reconciled.columns, layout, sorted_by=spark_bucketing.file_partition_columns(layout)) -%}
  {%- set plain = spark_bucketing.without_expressions(reconciled.columns) -%}
  {%- set rows_per_file = spark_bucketing.rows_per_file(input, plain, layout, relation, existing) -%}
  {%- set plan = spark_bucketing.plan_files(relation, input, layout, rows_per_file) -%}
  {% do spark_bucketing.alter_relation(relation, reconciled.added, none, layout, existing) %}
  {%- if plan.rows -%}
    {%- set since = spark_bucketing.minutes_ago() -%}
    {%- set overwrite = increment.strategy == 'insert_overwrite' -%}
    {%- if overwrite and spark_bucketing.publishes_builds(existing) -%}
      {%- set build = spark_bucketing.intermediate_relation(relation, 'build') -%}
      {%- set id = spark_bucketing.start_build(build, plain, layout, existing) -%}
      {% do spark_bucketing.insert_organized(build, input, plan, plain, layout) %}
      {% do spark_bucketing.publish_builds(relation, [build], [id]) %}
    {%- else -%}
      {% do spark_bucketing.insert_organized(relation, input, plan, plain, layout, overwrite) %}
    {%- endif -%}
    {% do spark_bucketing.write_file_statistics(relation, spark_bucketing.table_columns(spark_bucketing.quote_relation(relation)), layout, since) %}
  {%- else -%}
    {% call statement('main') -%} select 'no new rows' as message {%- endcall %}
  {%- endif -%}
  {% do spark_bucketing.drop_tables([plan.relation, input]) %}
{%- endmacro %}


{#- Raises an error if the table's layout differs from the config. Only a full refresh can change the layout. -#}
{% macro validate_organized_layout(layout, existing) -%}
  {%- if spark_bucketing.describe_layout(layout) != spark_bucketing.describe_layout(existing) -%}
    {% do spark_bucketing.raise_config_error('partition_by' if layout.file_format == existing.file_format else 'file_format', spark_bucketing.describe_layout(layout),
        'the layout of the table: ' ~ spark_bucketing.describe_layout(existing), 'dbt run --full-refresh, which rebuilds the table') %}
  {%- endif -%}
  {%- for setting in ['range_by', 'implicit_partition_by'] if layout[setting] | map('lower') | list != existing[setting] | map('lower') | list -%}
    {% do spark_bucketing.raise_config_error(setting, layout[setting] | join(', ') or 'none', 'the `' ~ setting ~ '` of the table: ' ~ (existing[setting] | join(', ') or 'none'),
        'dbt run --full-refresh, which rebuilds the table') %}
  {%- endfor -%}
{%- endmacro %}
