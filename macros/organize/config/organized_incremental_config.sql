{#-
  Returns incremental_config() of an organized model, plus {operations, checks}.

  operations: dict from 'delete', 'insert' and 'update' to the SQL condition that marks a row of the query for this operation
  checks: bool, whether a merge compares the marked operations with the table
-#}
{% macro organized_incremental_config(layout, node=model) -%}
  {%- set increment = spark_bucketing.incremental_config(layout, node) -%}
  {%- if increment.strategy == 'microbatch' -%}
    {% do spark_bucketing.raise_config_error('incremental_strategy', increment.strategy, "'append', 'insert_overwrite' or 'merge' with materialized='organized_incremental'",
        "materialized='bucketed_incremental', which supports microbatch", node=node) %}
  {%- endif -%}
  {%- if increment.on_schema_change == 'sync_all_columns' -%}
    {% do spark_bucketing.raise_config_error('on_schema_change', increment.on_schema_change, "one of ignore, fail, append_new_columns with materialized='organized_incremental'",
        "on_schema_change='append_new_columns', or dbt run --full-refresh to drop columns", node=node) %}
  {%- endif -%}
  {%- do increment.update({'operations': {}, 'checks': true}) -%}
  {%- for operation in ['delete', 'insert', 'update'] -%}
    {%- set setting = operation ~ '_when' -%}
    {%- set condition = node.config.get(setting) -%}
    {%- if condition is not none -%}
      {%- if condition is not string or not condition.strip() -%}
        {% do spark_bucketing.raise_config_error(setting, condition, "a SQL condition on columns of the model's query",
            setting ~ "=\"op = '" ~ operation[0] | upper ~ "'\"", node=node) %}
      {%- endif -%}
      {%- do increment.operations.update({operation: condition}) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- set checks = node.config.get('merge_checks') -%}
  {%- if checks is not none -%}
    {%- if checks is not boolean -%}
      {% do spark_bucketing.raise_config_error('merge_checks', checks, 'true or false', 'merge_checks=true', node=node) %}
    {%- endif -%}
    {%- do increment.update({'checks': checks}) -%}
  {%- endif -%}
  {%- if increment.strategy == 'merge' -%}
    {% do spark_bucketing.validate_organized_merge(layout, node) %}
  {%- else -%}
    {%- for setting in ['delete_when', 'insert_when', 'update_when'] if node.config.get(setting) is not none -%}
      {% do spark_bucketing.raise_config_error(setting, node.config.get(setting),
          "no `" ~ setting ~ "` with incremental_strategy='" ~ increment.strategy ~ "', which inserts every row",
          "incremental_strategy='merge' with a `unique_key`", node=node) %}
    {%- endfor -%}
  {%- endif -%}
  {{ return(increment) }}
{%- endmacro %}


{#- Raises an error unless a merge can find the files for a key by range, and can split a file that grows. -#}
{% macro validate_organized_merge(layout, node=model) -%}
  {%- if not layout.range_by -%}
    {% do spark_bucketing.raise_config_error('incremental_strategy', 'merge', '`range_by` in the config; a merge uses the ranges to find the files that it must rewrite',
        "range_by='event_time', or materialized='bucketed_incremental', which rewrites partitions", node=node) %}
  {%- elif layout.file_count.setting not in ['rows_per_file', 'target_file_size'] -%}
    {%- set found = layout.file_count if layout.file_count.setting != 'range_boundaries_from' else {'setting': 'rows_per_file', 'value': 'none'} -%}
    {% do spark_bucketing.raise_config_error(found.setting, found.value,
        "rows_per_file or target_file_size with incremental_strategy='merge', which splits files that grow too large",
        "target_file_size='256MiB'", node=node) %}
  {%- endif -%}
{%- endmacro %}
