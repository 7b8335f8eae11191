{#-
  The first run and --full-refresh build the whole table. Later, each increment, or each batch of a microbatch model, changes the table in one of these
  ways:

    insert_overwrite, microbatch  partitioned: replaces the partitions of the new rows, in one INSERT OVERWRITE
                                  unpartitioned: rebuilds the table
    append, merge                 with the extension: replaces the files of the touched buckets, in one MERGE INTO
                                  otherwise, partitioned: rewrites the touched partitions through a staging table
                                  otherwise, unpartitioned: rebuilds the table, because stock Spark cannot replace less than a partition

  If the layout changes, or if columns are dropped or change their type, the increment rewrites the whole table, including the rows
  that it keeps. With on_bucket_change='evolve', only the table and the partitions that the run writes get a new bucket spec.
-#}
{% materialization bucketed_incremental, adapter='spark', supported_languages=['sql'] -%}
  {%- set layout = spark_bucketing.model_config() -%}
  {%- set increment = spark_bucketing.incremental_config(layout) -%}
  {%- set overwrite = increment.strategy in ['insert_overwrite', 'microbatch'] -%}
  {%- set target_relation = this.incorporate(type='table') -%}

  {{ run_hooks(pre_hooks) }}
  {% do spark_bucketing.validate_session(keeps_rows=true) %}

  {%- set existing = spark_bucketing.recover_relation(target_relation, rebuild=should_full_refresh()) -%}
  {%- if existing and existing.staged -%}
    {% do spark_bucketing.replace_touched_partitions(target_relation, existing.staged.empties, [existing.staged.relation]) %}
  {%- endif -%}
  {%- set rebuild = existing is none or existing.type == 'view' or should_full_refresh() -%}
  {%- set batches = [none] -%}
  {%- if increment.strategy == 'microbatch' -%}
    {%- set batches = spark_bucketing.batches_with_rows(spark_bucketing.microbatches(incremental=not rebuild), incremental=not rebuild) -%}
  {%- endif -%}
  {%- if rebuild -%}
    {%- set sources = [] -%}
    {%- for batch in batches -%}
      {#- Render the model again, because a hook may have dropped the table after dbt compiled the model. -#}
      {%- do sources.append(spark_bucketing.model_source(spark_bucketing.render_model(false, batch))) -%}
    {%- endfor -%}
    {%- set columns = spark_bucketing.query_columns(sources[0]) -%}
    {% do spark_bucketing.validate_merge_columns(columns, increment) %}
    {% do spark_bucketing.build_table(target_relation, sources, columns, spark_bucketing.resolve_layout(layout, columns), existing, batches) %}
  {%- endif -%}
  {%- for batch in batches if not rebuild -%}
    {% do spark_bucketing.log_batch(target_relation, batch, loop) %}
    {%- set new = spark_bucketing.reconcile_increment(target_relation, spark_bucketing.render_model(true, batch), layout, increment) -%}
    {%- set selected = '(select ' ~ spark_bucketing.select_list(new.columns, new.layout.partition_by) ~ ' from ' ~ new.source ~ ')' -%}
    {#- If the run alters the table, the query must run first, because it may read the table. Spark's own INSERT OVERWRITE must not read the table that
        it replaces, and does not check a batch. -#}
    {%- set reads_first = new.added or new.change == 'evolve' or not spark_bucketing.overwrites_files(new.layout) -%}
    {%- if overwrite and not new.layout.partition_by -%}
      {% do spark_bucketing.build_table(target_relation, [new.source], new.columns, new.layout, new.existing) %}
    {%- elif overwrite and not new.rewrite and not (reads_first and (batch or spark_bucketing.reads_relation(new.source, target_relation))) -%}
      {% do spark_bucketing.alter_relation(target_relation, new.added, new.change, new.layout, new.existing) %}
      {% do spark_bucketing.overwrite_partitions(target_relation, new.source, new.columns, new.layout,
          spark_bucketing.only_rows_of_batch(new.plain, new.layout, batch) if batch) %}
    {%- elif not overwrite and not new.rewrite and spark_bucketing.replaces_files(new.layout) -%}
      {% do spark_bucketing.validate_merge_predicates(new.rows, new.source, increment) %}
      {#- Rows that need Spark's store assignment get it before the merge compares their keys. -#}
      {%- set input = spark_bucketing.load_input(target_relation, new.source, new.columns, new.layout)
          if spark_bucketing.converted_columns(new.columns) or new.added or new.change == 'evolve' -%}
      {% do spark_bucketing.alter_relation(target_relation, new.added, new.change, new.layout, new.existing) %}
      {% do spark_bucketing.merge_into(target_relation, spark_bucketing.quote_relation(input) if input else selected, dict(increment, columns=new.plain)) %}
      {% do spark_bucketing.drop_tables([input] if input else []) %}
    {%- elif not new.layout.partition_by and not increment.predicates and not spark_bucketing.converted_columns(new.columns) -%}
      {#- The rebuild reads the table and the query only once, so it needs no input table. -#}
      {% do spark_bucketing.build_table(target_relation, [spark_bucketing.new_content(new.rows, selected, new.plain, increment, 'true')], new.plain, new.layout, new.existing) %}
    {%- else -%}
      {% do spark_bucketing.validate_merge_predicates(new.rows, new.source, increment) %}
      {%- set input = spark_bucketing.load_input(target_relation, new.source, new.columns, new.layout) -%}
      {% do spark_bucketing.validate_input(target_relation, new, input, increment, batch) %}
      {%- set new_rows = spark_bucketing.quote_relation(input) -%}
      {%- set touched = spark_bucketing.touched_partitions(new.rows, new_rows, new.layout, increment) if not overwrite and not new.rewrite and new.layout.partition_by -%}
      {%- if new.rewrite or not new.layout.partition_by -%}
        {#- If the new rows are rejected, the table stays unchanged. -#}
        {%- set replaced = spark_bucketing.partition_values(new.layout.partition_by, new_rows) if overwrite else [] -%}
        {%- set kept = 'not ' ~ spark_bucketing.partition_predicate(spark_bucketing.columns_named(new.plain, new.layout.partition_by), replaced) -%}
        {% do spark_bucketing.build_table(target_relation, [spark_bucketing.new_content(new.rows, new_rows, new.plain, increment, kept)], new.plain, new.layout, new.existing) %}
      {%- elif overwrite -%}
        {% do spark_bucketing.alter_relation(target_relation, new.added, new.change, new.layout, new.existing) %}
        {% do spark_bucketing.overwrite_partitions(target_relation, new_rows, new.plain, new.layout) %}
      {%- else -%}
        {%- set staged = spark_bucketing.stage_partitions(target_relation, new.rows, input, new.plain, new.layout, increment, touched) if touched.partitions -%}
        {#- Alters the table only after staging, because Spark may reject the new rows. -#}
        {% do spark_bucketing.alter_relation(target_relation, new.added, new.change, new.layout, new.existing) %}
        {%- if staged -%}
          {% do spark_bucketing.complete_staging(staged, target_relation, new.layout, new.existing.identity) %}
          {% do spark_bucketing.replace_touched_partitions(target_relation, touched.lose, [staged]) %}
        {%- else -%}
          {% call statement('main') -%} select 'no new rows' as message {%- endcall %}
        {%- endif -%}
      {%- endif -%}
      {% do spark_bucketing.drop_tables([input]) %}
    {%- endif -%}
  {%- endfor -%}
  {%- if not rebuild -%}
    {% do spark_bucketing.persist_changed_docs(target_relation) %}
  {%- endif -%}

  {% do apply_grants(target_relation, config.get('grants'), should_revoke(existing, full_refresh_mode=rebuild)) %}

  {{ run_hooks(post_hooks) }}

  {{ return({'relations': [target_relation]}) }}
{%- endmaterialization %}
