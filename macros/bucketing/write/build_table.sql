{#-
  Replaces all rows of a table, or creates it. If only the rows change, one INSERT OVERWRITE of the session extension replaces all files atomically.
  Otherwise, the macro builds an intermediate table, verifies it, and then replaces the whole table with it.

  sources: list of relations or queries in parentheses, as SQL, which are written one after another
  columns: list of {name, type[, expression]}
  existing: dict, table_layout() of the table to replace, or none
  batches: list that contains the microbatch of each source, or none for each source of a model without batches
-#}
{% macro build_table(relation, sources, columns, layout, existing, batches=[none]) -%}
  {% do spark_bucketing.warn_about_small_files(sources, layout) %}
  {%- if not batches[0] and spark_bucketing.keeps_definition(relation, columns, layout, existing) and not spark_bucketing.reads_relation(sources[0], relation) -%}
    {%- if not layout.clustered_by -%}
      {% do spark_bucketing.set_file_sizes(relation, layout, existing) %}
    {%- endif -%}
    {% do spark_bucketing.insert_rows(relation, sources[0], columns, layout, overwrite='static') %}
    {%- if layout.partition_by -%}
      {% do spark_bucketing.mark_written(relation) %}
    {%- endif -%}
  {%- else -%}
    {%- set tmp = spark_bucketing.create_build(relation, columns, layout) -%}
    {%- for source in sources -%}
      {% do spark_bucketing.log_batch(relation, batches[loop.index0], loop) %}
      {%- if spark_bucketing.has_other_strategy(layout) -%}
        {% do spark_bucketing.insert_by_strategy(tmp, source, columns, layout) %}
      {%- else -%}
        {% do spark_bucketing.insert_rows(tmp, source, columns, layout) %}
      {%- endif -%}
    {%- endfor -%}
    {%- if batches[0] -%}
      {% do spark_bucketing.validate_batch_partitions(tmp, layout) %}
    {%- endif -%}
    {% do spark_bucketing.verify_buckets(tmp, layout, build=context['__spark_bucketing_build']) %}
    {%- if layout.partition_by or not layout.clustered_by or not spark_bucketing.extension_enabled() -%}
      {#- If an unpartitioned table is sealed, verify_buckets() has already checked that it has this build's id. -#}
      {% do spark_bucketing.mark_written(tmp) %}
      {% do spark_bucketing.validate_build(tmp, spark_bucketing.found_build(tmp), context['__spark_bucketing_build']) %}
    {%- endif -%}
    {% do spark_bucketing.swap_relations(tmp, relation, existing) %}
  {%- endif -%}
{%- endmacro %}


{#- Creates the intermediate table of a new build, and returns it. -#}
{% macro create_build(relation, columns, layout) -%}
  {%- set tmp = spark_bucketing.intermediate_relation(relation, 'tmp') -%}
  {% do spark_bucketing.drop_relation_with_files(tmp) %}
  {% do spark_bucketing.execute_sql(spark_bucketing.bucketed_table_ddl(tmp, columns, layout)) %}
  {{ return(tmp) }}
{%- endmacro %}


{#-
  Returns whether a build changes only the rows of a table, so that an INSERT OVERWRITE of the session extension can replace them. `--full-refresh`
  always creates the table again, which also repairs damaged files or metadata.
-#}
{% macro keeps_definition(relation, columns, layout, existing) -%}
  {%- if not existing or existing.type != 'table' or should_full_refresh()
      or not spark_bucketing.overwrites_files(layout) or not spark_bucketing.distributes_writes(layout)
      or existing.definition != spark_bucketing.definition_digest(columns, layout)
      or spark_bucketing.describe_layout(existing) != spark_bucketing.describe_layout(layout) -%}
    {{ return(false) }}
  {%- endif -%}
  {#- Another statement may have altered the columns since. -#}
  {%- set expected = spark_bucketing.order_columns(columns, layout.partition_by) -%}
  {%- set found = spark_bucketing.table_columns(spark_bucketing.quote_relation(relation)) -%}
  {{ return(spark_bucketing.column_definitions(expected, []) | lower == spark_bucketing.column_definitions(found, []) | lower) }}
{%- endmacro %}
