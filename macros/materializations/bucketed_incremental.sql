{#-
  The first run and --full-refresh build the whole table. Later, each increment, or each batch of a microbatch model, changes the table in one of these
  ways:

    insert_overwrite, microbatch  partitioned: replaces the partitions of the new rows, in one INSERT OVERWRITE
                                  unpartitioned: rebuilds the table
    append, merge                 replaces the files of the touched buckets, in one MERGE INTO of the session extension

  If the layout changes, or if columns are dropped or change their type, the increment changes a copy of the table in the new layout, which then replaces
  the table. With on_bucket_change='evolve', only the table and the partitions that the run writes get a new bucket spec.
-#}
{% materialization bucketed_incremental, adapter='spark', supported_languages=['sql'] -%}
  {%- set layout = spark_bucketing.model_config() -%}
  {%- set increment = spark_bucketing.incremental_config(layout) -%}
  {%- set overwrite = increment.strategy in ['insert_overwrite', 'microbatch'] -%}
  {%- set target_relation = this.incorporate(type='table') -%}

  {{ run_hooks(pre_hooks) }}
  {% do spark_bucketing.validate_session(keeps_rows=true) %}
  {%- if not overwrite -%}
    {% do spark_bucketing.require_extension('incremental_strategy', increment.strategy, 'stock Spark cannot replace less than a partition',
        "incremental_strategy='insert_overwrite', which replaces whole partitions") %}
  {%- endif -%}
  {% do spark_bucketing.warn_about_missing_extension(layout) %}

  {%- set existing = spark_bucketing.recover_relation(target_relation, rebuild=should_full_refresh()) -%}
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
    {%- if overwrite and not new.layout.partition_by -%}
      {% do spark_bucketing.build_table(target_relation, [new.source], new.columns, new.layout, new.existing) %}
    {%- else -%}
      {% do spark_bucketing.validate_merge_predicates(new.rows, new.source, increment) %}
      {#- If the run alters the table, the query must run first, because it may read the table. Spark's own INSERT OVERWRITE must not read the table that
          it replaces, and does not check a batch. Rows that need Spark's store assignment get it before a merge compares their keys. -#}
      {%- set alters = not new.rewrite and (new.added or new.change == 'evolve') -%}
      {%- if overwrite -%}
        {%- set reads_first = (alters or not spark_bucketing.overwrites_files(new.layout))
            and (batch or (not new.rewrite and spark_bucketing.reads_relation(new.source, target_relation))) -%}
      {%- else -%}
        {%- set reads_first = alters or spark_bucketing.converted_columns(new.columns) -%}
      {%- endif -%}
      {%- set input = spark_bucketing.load_input(target_relation, new.source, new.columns, new.layout) if reads_first -%}
      {%- set source = spark_bucketing.quote_relation(input) if input else new.source -%}
      {%- set columns = new.plain if input else new.columns -%}
      {%- if batch and input -%}
        {#- The model's query may have cached the table's files. Rows that another session has inserted since would be lost. -#}
        {% do spark_bucketing.execute_sql('refresh table ' ~ spark_bucketing.quote_relation(target_relation)) %}
        {% do spark_bucketing.validate_batch(new.rows, input, new.plain, new.layout, batch) %}
      {%- endif -%}
      {%- if new.rewrite -%}
        {%- set relation = spark_bucketing.create_build(target_relation, new.plain, new.layout) -%}
        {% do spark_bucketing.insert_rows(relation, new.rows, new.plain, new.layout) %}
      {%- else -%}
        {%- set relation = target_relation -%}
        {% do spark_bucketing.alter_relation(relation, new.added, new.change, new.layout, new.existing) %}
      {%- endif -%}
      {%- if overwrite -%}
        {% do spark_bucketing.overwrite_partitions(relation, source, columns, new.layout,
            spark_bucketing.only_rows_of_batch(new.plain, new.layout, batch) if batch and not input) %}
      {%- else -%}
        {%- set selected = '(select ' ~ spark_bucketing.select_list(columns, new.layout.partition_by) ~ ' from ' ~ source ~ ')' -%}
        {% do spark_bucketing.merge_into(relation, selected, dict(increment, columns=new.plain)) %}
      {%- endif -%}
      {%- if new.rewrite -%}
        {% do spark_bucketing.verify_buckets(relation, new.layout, build=context['__spark_bucketing_build']) %}
        {% do spark_bucketing.mark_written(relation) %}
        {% do spark_bucketing.validate_build(relation, spark_bucketing.found_build(relation), context['__spark_bucketing_build']) %}
        {% do spark_bucketing.swap_relations(relation, target_relation, new.existing) %}
      {%- endif -%}
      {% do spark_bucketing.drop_tables([input] if input else []) %}
    {%- endif -%}
  {%- endfor -%}
  {%- if not rebuild -%}
    {% do spark_bucketing.persist_changed_docs(target_relation) %}
  {%- endif -%}

  {% do apply_grants(target_relation, config.get('grants'), should_revoke(existing, full_refresh_mode=rebuild)) %}

  {{ run_hooks(post_hooks) }}

  {{ return({'relations': [target_relation]}) }}
{%- endmaterialization %}
