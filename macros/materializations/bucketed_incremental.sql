{% materialization bucketed_incremental, adapter='spark', supported_languages=['sql'] -%}
  {%- set layout = spark_bucketing.model_config() -%}
  {%- set increment = spark_bucketing.incremental_config(layout) -%}
  {%- set target_relation = this.incorporate(type='table') -%}

  {{ run_hooks(pre_hooks) }}
  {% do spark_bucketing.validate_session(keeps_rows=true) %}

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
  {%- else -%}
    {%- for batch in batches -%}
      {% do spark_bucketing.log_batch(target_relation, batch, loop) %}
      {% do spark_bucketing.add_increment(target_relation, spark_bucketing.render_model(true, batch), layout, increment, batch) %}
    {%- endfor -%}
    {% do spark_bucketing.persist_changed_docs(target_relation) %}
  {%- endif -%}

  {% do apply_grants(target_relation, config.get('grants'), should_revoke(existing, full_refresh_mode=rebuild)) %}

  {{ run_hooks(post_hooks) }}

  {{ return({'relations': [target_relation]}) }}
{%- endmaterialization %}
