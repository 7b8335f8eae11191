{#-
  Returns whether the session supports SQL scripts, according to detect_scripts(). docs/explanation/replacing-rows.md describes a swap
  without scripts.
-#}
{% macro has_scripts() -%}
  {{ return(context['__spark_bucketing_scripts']) }}
{%- endmacro %}


{#- Detects once per model whether SQL scripts are available: by default since Spark 4.1, and as an option in Spark 4.0. -#}
{% macro detect_scripts(settings) -%}
  {%- set version = spark_bucketing.spark_version() -%}
  {%- set enabled = settings.get('spark.sql.scripting.enabled', ['', version >= [4, 1]])[1] | string | lower == 'true' -%}
  {%- do context.update({'__spark_bucketing_scripts': version >= [4, 0] and enabled}) -%}
{%- endmacro %}


{#- Returns whether SQL supports options for a single read or write: WITH (...), since Spark 4.0. -#}
{% macro has_query_options() -%}
  {{ return(spark_bucketing.spark_version() >= [4, 0]) }}
{%- endmacro %}
