{#-
  Runs one increment, or one batch, of an incremental model.

    insert_overwrite, microbatch  partitioned: replaces the partitions of the new rows, in one INSERT OVERWRITE
                                  unpartitioned: rebuilds the table
    append, merge                 with the extension: replaces the files of the touched buckets, in one MERGE INTO
                                  otherwise, partitioned: rewrites the touched partitions through a staging table
                                  otherwise, unpartitioned: rebuilds the table, because stock Spark cannot replace less than a partition

  If the layout changes, or if columns are dropped or change their type, it rewrites the whole table with the new rows. With
  on_bucket_change='evolve', a new bucket spec applies to the table and the written partitions only.

  batch: dict {start, end} of a microbatch, or none
-#}
{% macro add_increment(relation, sql, layout, increment, batch=none) -%}
  {%- set source = spark_bucketing.model_source(sql) -%}
  {%- set columns = spark_bucketing.query_columns(source) -%}
  {%- set layout = spark_bucketing.resolve_layout(layout, columns) -%}
  {% do spark_bucketing.validate_merge_columns(columns, increment) %}
  {%- set existing = spark_bucketing.table_layout(relation) -%}
  {%- set existing_columns = spark_bucketing.table_columns(spark_bucketing.quote_relation(relation)) -%}
  {%- set reconciled = spark_bucketing.reconcile_columns(increment.on_schema_change, columns, existing_columns) -%}
  {% do spark_bucketing.validate_merge_columns(reconciled.columns, increment) %}
  {% do spark_bucketing.fill_columns(reconciled.columns, layout) %}
  {%- set change = spark_bucketing.layout_changes(layout, existing) -%}
  {%- set rewrite = change == 'rewrite' or reconciled.rewrite -%}
  {%- if not rewrite and change == 'evolve' -%}
    {% do spark_bucketing.validate_evolution_session() %}
  {%- endif -%}
  {%- set overwrite = increment.strategy in ['insert_overwrite', 'microbatch'] -%}
  {%- set plain = spark_bucketing.without_expressions(reconciled.columns) -%}
  {%- set rows = spark_bucketing.aligned_rows(relation, plain, existing_columns, layout.partition_by if rewrite else []) -%}
  {#- If the run alters the table, the query must run first, because it may read the table. -#}
  {%- set direct = spark_bucketing.overwrites_files(layout) and not reconciled.added and change != 'evolve' -%}
  {%- if overwrite and not layout.partition_by -%}
    {% do spark_bucketing.build_table(relation, [source], reconciled.columns, layout, existing) %}
  {%- elif overwrite and not rewrite and not batch and (direct or not spark_bucketing.reads_relation(source, relation)) -%}
    {% do spark_bucketing.alter_relation(relation, reconciled.added, change, layout, existing) %}
    {% do spark_bucketing.overwrite_partitions(relation, source, reconciled.columns, layout) %}
  {%- elif not overwrite and not rewrite and spark_bucketing.replaces_files(layout) -%}
    {% do spark_bucketing.validate_merge_predicates(rows, source, increment) %}
    {#- Rows that need Spark's store assignment get it before the merge compares their keys. -#}
    {%- set input = spark_bucketing.load_input(relation, source, reconciled.columns, layout)
        if spark_bucketing.converted_columns(reconciled.columns) or reconciled.added or change == 'evolve' -%}
    {%- set new_rows = spark_bucketing.quote_relation(input) if input else '(select ' ~ spark_bucketing.select_list(reconciled.columns, layout.partition_by) ~ ' from ' ~ source ~ ')' -%}
    {% do spark_bucketing.alter_relation(relation, reconciled.added, change, layout, existing) %}
    {% do spark_bucketing.merge_into(relation, new_rows, dict(increment, columns=plain)) %}
    {% do spark_bucketing.drop_tables([input] if input else []) %}
  {%- elif not layout.partition_by and not increment.predicates and not spark_bucketing.converted_columns(reconciled.columns) -%}
    {#- The rebuild reads the table and the query only once, so it needs no input table. -#}
    {%- set new_rows = '(select ' ~ spark_bucketing.select_list(reconciled.columns, []) ~ ' from ' ~ source ~ ')' -%}
    {% do spark_bucketing.build_table(relation, [spark_bucketing.new_content(rows, new_rows, plain, increment, 'true')], plain, layout, existing) %}
  {%- else -%}
    {% do spark_bucketing.validate_merge_predicates(rows, source, increment) %}
    {%- set input = spark_bucketing.load_input(relation, source, reconciled.columns, layout) -%}
    {#- The model's query may have cached the table's files. Rows that another session has inserted since would be lost. -#}
    {% do spark_bucketing.execute_sql('refresh table ' ~ spark_bucketing.quote_relation(relation)) %}
    {%- set new_rows = spark_bucketing.quote_relation(input) -%}
    {%- set keys = spark_bucketing.columns_named(plain, layout.partition_by) -%}
    {%- if increment.strategy == 'merge' and increment.predicates -%}
      {% do spark_bucketing.validate_merge(rows, new_rows, plain, increment) %}
    {%- elif batch -%}
      {% do spark_bucketing.validate_batch(rows, input, plain, layout, batch) %}
    {%- endif -%}
    {%- if rewrite or not layout.partition_by -%}
      {#- If the new rows are rejected, the table stays unchanged. -#}
      {%- set replaced = spark_bucketing.partition_values(layout.partition_by, new_rows) if overwrite else [] -%}
      {%- set kept = 'not ' ~ spark_bucketing.partition_predicate(keys, replaced) -%}
      {% do spark_bucketing.build_table(relation, [spark_bucketing.new_content(rows, new_rows, plain, increment, kept)], plain, layout, existing) %}
      {% do spark_bucketing.drop_tables([input]) %}
    {%- elif overwrite -%}
      {% do spark_bucketing.alter_relation(relation, reconciled.added, change, layout, existing) %}
      {% do spark_bucketing.overwrite_partitions(relation, new_rows, plain, layout) %}
      {% do spark_bucketing.drop_tables([input]) %}
    {%- else -%}
      {%- set touched = spark_bucketing.touched_partitions(rows, new_rows, layout, increment) -%}
      {%- set staged = spark_bucketing.stage_partitions(relation, rows, input, plain, layout, increment, touched) if touched.partitions -%}
      {#- Alters the table only after staging, because Spark may reject the new rows. -#}
      {% do spark_bucketing.alter_relation(relation, reconciled.added, change, layout, existing) %}
      {%- if touched.partitions -%}
        {% do spark_bucketing.complete_staging(staged, relation, layout, existing.identity) %}
        {% do spark_bucketing.replace_touched_partitions(relation, touched.lose, [staged, input]) %}
      {%- else -%}
        {% call statement('main') -%} select 'no new rows' as message {%- endcall %}
        {% do spark_bucketing.drop_tables([input]) %}
      {%- endif -%}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}
