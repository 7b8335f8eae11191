{% materialization organized_table, adapter='spark', supported_languages=['sql'] -%}
  {%- set layout = spark_bucketing.organized_config() -%}
  {%- set target_relation = this.incorporate(type='table') -%}

  {{ run_hooks(pre_hooks) }}
  {% do spark_bucketing.validate_session(keeps_rows=true) %}

  {%- set existing = spark_bucketing.recover_relation(target_relation, rebuild=true) -%}
  {%- set source = spark_bucketing.model_source(compiled_code) -%}
  {%- set columns = spark_bucketing.query_columns(source) -%}
  {%- set layout = spark_bucketing.resolve_organized_layout(layout, columns) -%}
  {%- set input = spark_bucketing.load_input(target_relation, source, columns, layout, sorted_by=layout.partition_by + layout.implicit_partition_by) -%}
  {%- set rows_per_file = spark_bucketing.rows_per_file(input, columns, layout, target_relation, existing) -%}
  {%- set plan = spark_bucketing.plan_files(target_relation, input, layout, rows_per_file) -%}
  {% do spark_bucketing.swap_relations(spark_bucketing.build_organized_table(target_relation, input, plan, columns, layout), target_relation, existing) %}
  {% do spark_bucketing.drop_tables([plan.relation, input]) %}

  {% do apply_grants(target_relation, config.get('grants'), should_revoke(existing, full_refresh_mode=true)) %}

  {{ run_hooks(post_hooks) }}

  {{ return({'relations': [target_relation]}) }}
{%- endmaterialization %}
