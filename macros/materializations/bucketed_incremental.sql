{% materialization bucketed_incremental, adapter='spark', supported_languages=['sql'] -%}
  {%- set layout = spark_bucketing.bucketing_config() -%}
  {%- set increment = spark_bucketing.incremental_config(layout) -%}
  {%- set target_relation = this.incorporate(type='table') -%}

  {{ run_hooks(pre_hooks) }}

  {%- set existing = spark_bucketing.recover_relation(target_relation) -%}
  {%- set rebuild = existing is none or existing.type == 'view' or should_full_refresh() -%}
  {%- set source = spark_bucketing.model_view(compiled_code if rebuild else spark_bucketing.incremental_sql()) -%}
  {%- set columns = spark_bucketing.table_columns(source) -%}
  {%- set layout = spark_bucketing.resolve_layout(layout, columns) -%}

  {%- if rebuild -%}
    {% do spark_bucketing.build_table(target_relation, source, columns, layout, existing) %}
  {%- else -%}
    {%- set existing_columns = spark_bucketing.table_columns(spark_bucketing.quote_relation(target_relation)) -%}
    {%- set reconciled = spark_bucketing.reconcile_columns(increment.on_schema_change, columns, existing_columns) -%}
    {% do spark_bucketing.fill_columns(reconciled.columns, layout) %}
    {% do spark_bucketing.align_table(target_relation, layout, reconciled, existing_columns, existing) %}
    {% do spark_bucketing.apply_increment(target_relation, source, reconciled.columns, layout, increment, existing) %}
    {% do spark_bucketing.persist_changed_docs(target_relation, existing) %}
  {%- endif -%}
  {% do spark_bucketing.execute_sql('drop view if exists ' ~ source) %}

  {% do apply_grants(target_relation, config.get('grants'), should_revoke(existing, full_refresh_mode=rebuild)) %}

  {{ run_hooks(post_hooks) }}

  {{ return({'relations': [target_relation]}) }}
{%- endmaterialization %}
