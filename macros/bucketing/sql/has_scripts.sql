{#-
  Returns whether the session supports SQL scripts, according to detect_scripts(). For swaps without scripts, see docs/explanation/replacing-rows.md.
-#}
{% macro has_scripts() -%}
  {{ return(context['__spark_bucketing_scripts']) }}
{%- endmacro %}


{#- Detects once per model whether SQL scripts are available. By default, they are available since Spark 4.1. In Spark 4.0, they can be enabled. -#}
{% macro detect_scripts(settings) -%}
  {%- set version = spark_bucketing.spark_version() -%}
  {%- set enabled = settings.get('spark.sql.scripting.enabled', ['', version >= [4, 1]])[1] | string | lower == 'true' -%}
  {%- do context.update({'__spark_bucketing_scripts': version >= [4, 0] and enabled}) -%}
{%- endmacro %}


{#- Returns whether a SQL statement can set options for a single read or write, with WITH (...). Such options exist since Spark 4.0. -#}
{% macro has_query_options() -%}
  {{ return(spark_bucketing.spark_version() >= [4, 0]) }}
{%- endmacro %}
