{% materialization bucketed_table, adapter='spark', supported_languages=['sql'] -%}
  {%- set layout = spark_bucketing.model_config() -%}
  {%- set target_relation = this.incorporate(type='table') -%}

  {{ run_hooks(pre_hooks) }}
  {% do spark_bucketing.validate_session() %}
  {% do spark_bucketing.warn_about_missing_extension(layout) %}

  {%- set existing = spark_bucketing.recover_relation(target_relation, rebuild=true) -%}
  {%- set source = spark_bucketing.model_source(compiled_code) -%}
  {%- set columns = spark_bucketing.query_columns(source) -%}
  {% do spark_bucketing.build_table(target_relation, [source], columns, spark_bucketing.resolve_layout(layout, columns), existing) %}

  {% do apply_grants(target_relation, config.get('grants'), should_revoke(existing, full_refresh_mode=true)) %}

  {{ run_hooks(post_hooks) }}

  {{ return({'relations': [target_relation]}) }}
{%- endmaterialization %}
