{#- Returns `model.batch` for the SQL of a model, with the same values as dbt-core's BatchContext. -#}
{% macro batch_context(batch) -%}
  {%- set format = {'hour': '%Y%m%dT%H', 'day': '%Y%m%d', 'month': '%Y%m', 'year': '%Y'}[config.get('batch_size') | lower] -%}
  {{ return({
      'id': batch.start.strftime(format),
      'event_time_start': spark_bucketing.in_utc(batch.start),
      'event_time_end': spark_bucketing.in_utc(batch.end),
  }) }}
{%- endmacro %}
