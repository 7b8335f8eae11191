{#-
  Returns the batches of a microbatch model as a list of {start, end} in UTC. The rules are the same as in dbt-core's MicrobatchBuilder.

  The batches of the first run start at `begin`. The batches of later runs start `lookback` batches before the current time. The options
  --event-time-start and --event-time-end override these rules, and --sample overrides these options. dbt-core itself creates batches only for models
  with materialized='incremental'.
-#}
{% macro microbatches(incremental) -%}
  {%- set size = config.get('batch_size') | lower -%}
  {%- set now = modules.datetime.datetime.fromisoformat(run_started_at.isoformat()).replace(tzinfo=none) -%}
  {%- set sample = builtins.ref.config.args.sample or {} -%}
  {%- set first = spark_bucketing.as_datetime(sample.start or invocation_args_dict.get('event_time_start')) -%}
  {%- set last = spark_bucketing.as_datetime(sample.end or invocation_args_dict.get('event_time_end')) or now -%}
  {%- set end = spark_bucketing.shift_batch(last, size, 0) -%}
  {%- if end != last -%}
    {%- set end = spark_bucketing.shift_batch(last, size, 1) -%}
  {%- endif -%}
  {%- if first -%}
    {%- set start = spark_bucketing.shift_batch(first, size, 0) -%}
  {%- elif incremental -%}
    {%- set lookback = 1 if config.get('lookback') is none else config.get('lookback') -%}
    {%- set start = spark_bucketing.shift_batch(last, size, -lookback - (1 if end == last else 0)) -%}
  {%- else -%}
    {%- set start = spark_bucketing.shift_batch(spark_bucketing.as_datetime(config.get('begin')), size, 0) -%}
  {%- endif -%}
  {%- set hours = {'hour': 1, 'day': 24, 'month': 28 * 24, 'year': 365 * 24}[size] -%}
  {%- if (end - start).total_seconds() > 100000 * hours * 3600 -%}
    {% do spark_bucketing.raise_config_error('batch_size', size ~ ', which results in more than 100,000 batches from ' ~ start ~ ' to ' ~ end,
        'at most 100,000 batches in one run', "use a larger batch_size, a later `begin`, or --event-time-start and --event-time-end") %}
  {%- endif -%}
  {%- set batches = [] -%}
  {%- set cursor = namespace(start=start) -%}
  {%- for _ in range(100000) if cursor.start < end or not batches -%}
    {%- set next = spark_bucketing.shift_batch(cursor.start, size, 1) -%}
    {%- do batches.append({'start': cursor.start, 'end': next}) -%}
    {%- set cursor.start = next -%}
  {%- endfor -%}
  {{ return(batches) }}
{%- endmacro %}
