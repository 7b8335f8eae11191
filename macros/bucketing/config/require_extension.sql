{#-
  Raises an error unless the session extension is enabled.

  setting, value: the config key that requires the extension, and its value
  reason: string, why stock Spark is not enough
  otherwise: string, what to do without the extension, or none
-#}
{% macro require_extension(setting, value, reason, otherwise=none) -%}
  {%- if not spark_bucketing.extension_enabled() -%}
    {%- set missing = spark_bucketing.missing_extension() -%}
    {% do spark_bucketing.raise_config_error(setting, value ~ ', in ' ~ missing.found, 'the session extension, enabled; ' ~ reason,
        missing.instead ~ (', or use ' ~ otherwise if otherwise else '')) %}
  {%- endif -%}
{%- endmacro %}


{#- Returns the message parts {found, instead} for a session in which the extension is not enabled. -#}
{% macro missing_extension() -%}
  {{ return(spark_bucketing.missing_bucket_specs() or {'found': 'a session with spark.bucketing.enabled=false', 'instead': 'set spark.bucketing.enabled=true'}) }}
{%- endmacro %}


{#- Warns once per run if Spark will not read the tables in the Hive layout that the run writes as bucketed. -#}
{% macro warn_about_missing_extension(layout) -%}
  {%- set warning = {} -%}
  {#- Several threads may reach this line at the same time. Because of setdefault(), only one of them logs the warning. -#}
  {%- if layout.bucket_hash in spark_bucketing.bucketing_versions() and not spark_bucketing.extension_enabled()
      and spark_bucketing.run_cache().setdefault('warning_of_extension', warning) is sameas warning -%}
    {%- set missing = spark_bucketing.missing_extension() -%}
    {% do exceptions.warn('This run writes bucketed tables in ' ~ missing.found ~ '. Their files are not sealed, so Spark will read them with ordinary scans. To seal them, '
        ~ missing.instead ~ ', and run the models again.') %}
  {%- endif -%}
{%- endmacro %}
