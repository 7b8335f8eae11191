{#- Validates the microbatch configs, which dbt-core validates only for materialized='incremental'. -#}
{% macro validate_microbatch(layout, node=model) -%}
  {%- if not layout.partition_by -%}
    {% do spark_bucketing.raise_config_error('partition_by', none, "a partition column with the granularity of `batch_size`, with incremental_strategy='microbatch'",
        "partition_by=['the_day']", node=node) %}
  {%- endif -%}
  {%- for setting, expected, instead in [
      ('event_time', 'the column with the time of a row', "event_time='the_day'"),
      ('batch_size', 'one of hour, day, month, year', "batch_size='day'"),
      ('begin', 'the start of the first batch', "begin='2024-01-01'"),
  ] if not node.config.get(setting) -%}
    {% do spark_bucketing.raise_config_error(setting, none, expected ~ ", with incremental_strategy='microbatch'", instead, node=node) %}
  {%- endfor -%}
  {%- set date = '[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])' -%}
  {%- set time = '([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?(Z|[+-][0-9]{2}:[0-9]{2})?' -%}
  {%- if not modules.re.match('^' ~ date ~ '([ T]' ~ time ~ ')?$', node.config.get('begin') | string) -%}
    {% do spark_bucketing.raise_config_error('begin', node.config.get('begin'), 'an ISO date or time', "begin='2024-01-01'", node=node) %}
  {%- endif -%}
  {%- if node.config.get('lookback') is not none -%}
    {% do spark_bucketing.integer_config('lookback', 0, 100000, node=node) %}
  {%- endif -%}
{%- endmacro %}
