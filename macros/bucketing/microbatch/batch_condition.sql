{#- Returns the SQL condition that selects the rows of a batch, the same condition as in dbt-core. -#}
{% macro batch_condition(event_time, batch) -%}
  {%- set time = spark_bucketing.event_time_sql(event_time) -%}
  {{ return(time ~ " >= '" ~ batch.start ~ "+00:00' and " ~ time ~ " < '" ~ batch.end ~ "+00:00'") }}
{%- endmacro %}


{#- Returns SQL for the column `event_time`, which may be a field of a struct unless it is quoted. -#}
{% macro event_time_sql(event_time, quoted=false) -%}
  {{ return(event_time if not quoted and modules.re.match('^[A-Za-z0-9_.]+$', event_time) else spark_bucketing.quote_identifier(event_time)) }}
{%- endmacro %}
