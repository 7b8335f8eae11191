{% materialization organized_incremental, adapter='spark', supported_languages=['sql'] -%}
  {%- set layout = spark_bucketing.organized_config() -%}
  {%- set increment = spark_bucketing.incremental_config(layout) -%}
  {%- set target_relation = this.incorporate(type='table') -%}

  {{ run_hooks(pre_hooks) }}
  {% do spark_bucketing.validate_organized_session(layout) %}

  {%- set existing = spark_bucketing.recover_relation(target_relation, rebuild=should_full_refresh()) -%}
  {%- set rebuild = existing is none or existing.type == 'view' or should_full_refresh() -%}
  {%- if not rebuild -%}
    {% do spark_bucketing.recover_files(target_relation) %}
  {%- endif -%}
  {%- set source = spark_bucketing.model_source(spark_bucketing.render_model(not rebuild)) -%}
  {%- set columns = spark_bucketing.query_columns(source) -%}
  {%- set layout = spark_bucketing.resolve_organized_layout(layout, columns) -%}
  {%- if rebuild -%}
    {% do spark_bucketing.validate_merge_columns(columns, increment) %}
    {%- set source = spark_bucketing.without_deletions(source, columns, increment) -%}
    {%- set reconciled = {'columns': columns} -%}
  {%- else -%}
    {%- set existing_columns = spark_bucketing.table_columns(spark_bucketing.quote_relation(target_relation)) -%}
    {%- set reconciled = spark_bucketing.reconcile_columns(increment.on_schema_change, columns, existing_columns, syncs=false) -%}
    {% do spark_bucketing.fill_columns(reconciled.columns, layout) %}
    {%- set layout = spark_bucketing.layout_of_table(layout, existing) -%}
  {%- endif -%}
  {%- if increment.strategy == 'merge' and not rebuild -%}
    {%- set merge = dict(increment, columns=spark_bucketing.without_expressions(reconciled.columns)) -%}
    {% do spark_bucketing.validate_organized_merge(target_relation, source, reconciled.columns, existing_columns, layout, merge) %}
    {%- set input_columns = reconciled.columns + (spark_bucketing.operation_columns(increment) if increment.operations else []) -%}
    {#- Rows that need Spark's store assignment get it before the merge compares their keys. -#}
    {%- set input = spark_bucketing.load_input(target_relation, source, input_columns, layout) if spark_bucketing.converted_columns(reconciled.columns) -%}
    {%- set new_rows = spark_bucketing.quote_relation(input) if input else '(select ' ~ spark_bucketing.select_list(input_columns, layout.partition_by) ~ ' from ' ~ source ~ ')' -%}
    {% do spark_bucketing.alter_relation(target_relation, reconciled.added, none, layout, existing) %}
    {% do spark_bucketing.merge_organized(target_relation, new_rows, merge, layout, existing) %}
    {% do spark_bucketing.drop_tables([input] if input else []) %}
  {%- elif rebuild or (increment.strategy == 'insert_overwrite' and not layout.partition_by) -%}
    {% do spark_bucketing.build_table(target_relation, [source], reconciled.columns, layout, existing) %}
  {%- else -%}
    {% do spark_bucketing.alter_relation(target_relation, reconciled.added, none, layout, existing) %}
    {% do spark_bucketing.set_file_sizes(target_relation, layout, existing) %}
    {%- set overwrite = 'dynamic' if increment.strategy == 'insert_overwrite' -%}
    {%- if spark_bucketing.has_other_strategy(layout) -%}
      {% do spark_bucketing.insert_by_strategy(target_relation, source, reconciled.columns, layout, overwrite) %}
    {%- else -%}
      {% do spark_bucketing.insert_rows(target_relation, source, reconciled.columns, layout, overwrite) %}
    {%- endif -%}
  {%- endif -%}
  {%- if not rebuild -%}
    {% do spark_bucketing.persist_changed_docs(target_relation) %}
  {%- endif -%}

  {% do apply_grants(target_relation, config.get('grants'), should_revoke(existing, full_refresh_mode=rebuild)) %}

  {{ run_hooks(post_hooks) }}

  {{ return({'relations': [target_relation]}) }}
{%- endmaterialization %}
