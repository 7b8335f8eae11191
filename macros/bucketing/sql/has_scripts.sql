{#- Whether the session runs SQL scripts, as validate_session() has found. docs/explanation/replacing-rows.md says what a swap does elsewhere. -#}
{% macro has_scripts() -%}
  {{ return(context['__spark_bucketing_scripts']) }}
{%- endmacro %}


{#- Looks for it, once for each model. Spark has them from 4.0 on, where they are off unless somebody has switched them on. -#}
{% macro detect_scripts(settings) -%}
  {%- set version = spark_bucketing.spark_version() -%}
  {%- set enabled = settings.get('spark.sql.scripting.enabled', ['', version >= [4, 1]])[1] | string | lower == 'true' -%}
  {%- do context.update({'__spark_bucketing_scripts': version >= [4, 0] and enabled}) -%}
{%- endmacro %}


{#- Whether SQL may say options of one read or write, WITH (...), as Spark can from 4.0 on. -#}
{% macro has_query_options() -%}
  {{ return(spark_bucketing.spark_version() >= [4, 0]) }}
{%- endmacro %}
