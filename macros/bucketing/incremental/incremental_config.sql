{#-
  Returns the validated incremental config: {strategy, unique_key, update_columns, exclude_columns, predicates, on_schema_change}.

  Runs no query, so that dbt can call it while it parses the project.
-#}
{% macro incremental_config(layout, node=model) -%}
  {%- set strategy = spark_bucketing.choice_config('incremental_strategy', ['append', 'insert_overwrite', 'merge', 'microbatch'], 'append',
      {'delete+insert': 'merge', 'delete_insert': 'merge', 'upsert': 'merge', 'replace_where': 'insert_overwrite', 'overwrite': 'insert_overwrite'}, node=node) -%}
  {%- set unique_key = spark_bucketing.column_list_config('unique_key', [], repeated=true, node=node) if node.config.get('unique_key') else [] -%}
  {%- set update = spark_bucketing.column_list_config('merge_update_columns', [], node=node) -%}
  {%- set exclude = spark_bucketing.column_list_config('merge_exclude_columns', [], node=node) -%}
  {%- set predicates = node.config.get('predicates') or node.config.get('incremental_predicates') or [] -%}
  {%- if strategy == 'merge' and not unique_key -%}
    {#- As in dbt, a merge without a key matches no row. -#}
    {% do exceptions.warn("Model '" ~ node.name ~ "': incremental_strategy='merge' without `unique_key` appends all rows. Set unique_key=['id'], or incremental_strategy='append'.") %}
    {%- set strategy = 'append' -%}
  {%- elif strategy == 'microbatch' -%}
    {% do spark_bucketing.validate_microbatch(layout, node=node) %}
  {%- elif update and exclude -%}
    {% do spark_bucketing.raise_config_error('merge_update_columns', update, 'one of merge_update_columns and merge_exclude_columns', 'remove one of the two', node=node) %}
  {%- endif -%}
  {%- if strategy != 'merge' and node.config.get('incremental_strategy') | lower != 'merge' -%}
    {%- for setting in ['unique_key', 'merge_update_columns', 'merge_exclude_columns', 'incremental_predicates'] if node.config.get(setting) -%}
      {% do exceptions.warn("Model '" ~ node.name ~ "': `" ~ setting ~ "` has no effect with incremental_strategy='" ~ strategy ~ "'; it applies to 'merge' only.") %}
    {%- endfor -%}
  {%- endif -%}
  {{ return({
      'strategy': strategy,
      'unique_key': unique_key,
      'update_columns': update,
      'exclude_columns': exclude,
      'predicates': [predicates] if predicates is string else predicates,
      'on_schema_change': spark_bucketing.choice_config('on_schema_change', ['ignore', 'fail', 'append_new_columns', 'sync_all_columns'], 'ignore', node=node),
  }) }}
{%- endmacro %}
