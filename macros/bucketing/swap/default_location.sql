{#- Returns the default location of a managed table. -#}
{% macro default_location(relation) -%}
  {{ return(spark_bucketing.schema_location(relation.schema) ~ relation.identifier | lower) }}
{%- endmacro %}


{#- Returns the location of a schema with a trailing slash. Spark prints it as an escaped URI, so it is unescaped to a path. -#}
{% macro schema_location(schema) -%}
  {%- set cache = spark_bucketing.run_cache().setdefault('schema_locations', {}) -%}
  {%- if schema not in cache -%}
    {%- set rows = run_query('describe schema ' ~ spark_bucketing.quote_identifier(schema)).rows -%}
    {%- set uri = (rows | selectattr(0, 'equalto', 'Location') | first)[1].rstrip('/') ~ '/' -%}
    {%- do cache.update({schema: modules.re.sub('%([0-9A-Fa-f]{2})', spark_bucketing.unescaped, uri)}) -%}
  {%- endif -%}
  {{ return(cache[schema]) }}
{%- endmacro %}
