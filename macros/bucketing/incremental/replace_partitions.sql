{#-
  Writes the new content of the touched partitions to a build, and publishes it. A failure before the publication leaves the table as it was.

    insert_overwrite, microbatch  the build contains the new rows
    append                        the same if none of the partitions exists; otherwise, a second build also contains the existing rows
    merge                         the build contains the merged rows

  rows: string, SQL from aligned_rows()
  reconciled: dict, from reconcile_columns(), with the expressions of fill_columns()
  change: string, from layout_changes()
  batch: dict {start, end} of a microbatch, or none
-#}
{% macro replace_partitions(relation, source, rows, reconciled, layout, increment, existing, change, batch) -%}
  {%- set columns = spark_bucketing.without_expressions(reconciled.columns) -%}
  {%- set input = spark_bucketing.intermediate_relation(relation, 'input') -%}
  {%- set build = spark_bucketing.intermediate_relation(relation, 'build') -%}
  {%- if increment.strategy == 'merge' -%}
    {% do spark_bucketing.load_input(relation, source, reconciled.columns, layout) %}
    {%- if increment.predicates -%}
      {% do spark_bucketing.validate_merge(rows, spark_bucketing.quote_relation(input), columns, increment) %}
    {%- endif -%}
    {%- set touched = spark_bucketing.touched_partitions(rows, spark_bucketing.quote_relation(input), layout, increment) -%}
    {%- set reads = true -%}
  {%- else -%}
    {% do spark_bucketing.start_build(build, columns, layout, existing) %}
    {% do spark_bucketing.insert_bucketed(build, source, reconciled.columns, layout) %}
    {%- set touched = spark_bucketing.partitions_of(build) -%}
    {%- if batch -%}
      {% do spark_bucketing.validate_batch(rows, touched, columns, layout, batch) %}
    {%- endif -%}
    {%- set reads = touched and increment.strategy == 'append' and spark_bucketing.record_state(relation, build) -%}
    {%- if reads -%}
      {% do spark_bucketing.execute_sql(spark_bucketing.rename_sql(build, input)) %}
    {%- endif -%}
  {%- endif -%}
  {%- if touched and reads -%}
    {% do spark_bucketing.start_build(build, columns, layout, existing, touched) %}
    {% do spark_bucketing.record_state(relation, build) %}
    {%- set kept = spark_bucketing.partition_predicate(spark_bucketing.columns_named(columns, layout.partition_by), touched) -%}
    {% do spark_bucketing.insert_bucketed(build, spark_bucketing.new_content(rows, spark_bucketing.quote_relation(input), columns, increment, kept), columns, layout) %}
  {%- endif -%}
  {%- if touched -%}
    {% do spark_bucketing.verify_buckets(build, layout, context['__spark_bucketing_build']) %}
  {%- endif -%}
  {#- Alters the table only now, because Spark may reject the new rows. -#}
  {% do spark_bucketing.alter_relation(relation, reconciled.added, change, layout, existing) %}
  {%- if touched -%}
    {% do spark_bucketing.publish_build(relation, build, layout, existing.identity) %}
  {%- else -%}
    {% call statement('main') -%} select 'no new rows' as message {%- endcall %}
    {% do spark_bucketing.drop_unpublished(build if increment.strategy != 'merge' else input) %}
  {%- endif -%}
  {%- if touched and reads -%}
    {% do spark_bucketing.drop_unpublished(input) %}
  {%- endif -%}
{%- endmacro %}
