{#- incremental_config() of an organized model, which adds files or replaces partitions, and changes no file that is there. -#}
{% macro organized_incremental_config(layout, node=model) -%}
  {%- set increment = spark_bucketing.incremental_config(layout, node) -%}
  {%- if increment.strategy not in ['append', 'insert_overwrite'] -%}
    {% do spark_bucketing.raise_config_error('incremental_strategy', increment.strategy, "'append' or 'insert_overwrite' for materialized='organized_incremental'",
        "materialized='bucketed_incremental', which has merge and microbatch", node=node) %}
  {%- endif -%}
  {%- if increment.on_schema_change == 'sync_all_columns' -%}
    {% do spark_bucketing.raise_config_error('on_schema_change', increment.on_schema_change, "one of ignore, fail, append_new_columns for materialized='organized_incremental'",
        "on_schema_change='append_new_columns', or dbt run --full-refresh where columns go", node=node) %}
  {%- endif -%}
  {{ return(increment) }}
{%- endmacro %}
