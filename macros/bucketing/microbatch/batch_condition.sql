{#- SQL condition for the rows of a batch, as dbt-core says it. -#}
{% macro batch_condition(event_time, batch) -%}
  {%- set time = event_time if modules.re.match('^[A-Za-z0-9_.]+$', event_time) else spark_bucketing.quote_identifier(event_time) -%}
  {{ return(time ~ " >= '" ~ batch.start ~ "+00:00' and " ~ time ~ " < '" ~ batch.end ~ "+00:00'") }}
{%- endmacro %}
