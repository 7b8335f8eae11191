{#-
  Raises an error unless the session extension is enabled. In stock Spark, no statement can change the buckets of an existing table.
-#}
{% macro validate_evolution_session() -%}
  {%- if not spark_bucketing.extension_enabled() -%}
    {%- set missing = spark_bucketing.missing_bucket_specs()
        or {'found': 'a session with spark.bucketing.enabled = false', 'instead': 'set spark.bucketing.enabled=true'} -%}
    {% do spark_bucketing.raise_config_error('on_bucket_change', 'evolve, in ' ~ missing.found,
        'the session extension, enabled; stock Spark cannot change the buckets of a table',
        missing.instead ~ ". To rewrite the table without the extension, use on_bucket_change='rebuild' or `dbt run --full-refresh`") %}
  {%- endif -%}
{%- endmacro %}
