{#-
  Raises unless this session has the extension, switched on: it alone has a statement for a table's buckets.
-#}
{% macro validate_evolution_session() -%}
  {%- if not spark_bucketing.extension_enabled() -%}
    {%- set missing = spark_bucketing.missing_bucket_specs()
        or {'found': 'a session with spark.bucketing.enabled = false', 'instead': 'set spark.bucketing.enabled=true'} -%}
    {% do spark_bucketing.raise_config_error('on_bucket_change', 'evolve, in ' ~ missing.found,
        'the session extension, switched on: stock Spark cannot alter the buckets of a table',
        missing.instead ~ ", or rewrite the table without it: on_bucket_change='rebuild', or dbt run --full-refresh") %}
  {%- endif -%}
{%- endmacro %}
