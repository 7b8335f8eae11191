{% materialization organized_incremental, adapter='spark', supported_languages=['sql'] -%}
  {%- set layout = spark_bucketing.organized_config() -%}
  {%- set increment = spark_bucketing.incremental_config(layout) -%}
  {%- set target_relation = this.incorporate(type='table') -%}

  {{ run_hooks(pre_hooks) }}
  {% do spark_bucketing.validate_session(keeps_rows=true) %}

  {%- set existing = spark_bucketing.recover_relation(target_relation, rebuild=should_full_refresh()) -%}
  {%- set rebuild = existing is none or existing.type == 'view' or should_full_refresh() -%}
  {%- if not rebuild and spark_bucketing.extension_enabled() -%}
    {% do spark_bucketing.recover_files(target_relation) %}
  {%- endif -%}
  {%- set source = spark_bucketing.model_source(spark_bucketing.render_model(not rebuild)) -%}
  {%- set columns = spark_bucketing.query_columns(source) -%}
  {%- set layout = spark_bucketing.resolve_organized_layout(layout, columns) -%}
  {%- if rebuild -%}
    {% do spark_bucketing.validate_merge_columns(columns, increment) %}
    {% do spark_bucketing.build_organized_table(target_relation, spark_bucketing.without_deletions(source, columns, increment), columns, layout, existing) %}
  {%- else -%}
    {% do spark_bucketing.add_organized_increment(target_relation, source, columns, layout, increment, existing) %}
    {% do spark_bucketing.persist_changed_docs(target_relation) %}
  {%- endif -%}

  {% do apply_grants(target_relation, config.get('grants'), should_revoke(existing, full_refresh_mode=rebuild)) %}

  {{ run_hooks(post_hooks) }}

  {{ return({'relations': [target_relation]}) }}
{%- endmaterialization %}
