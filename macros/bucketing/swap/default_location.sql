{#- Where a managed table of this name lies unless it is told otherwise. -#}
{% macro default_location(relation) -%}
  {{ return(spark_bucketing.schema_location(relation.schema) ~ relation.identifier | lower) }}
{%- endmacro %}


{#- The schema's own place, with a slash at its end; asked for once in a run. Of tables Spark says the path, of schemas the URI. -#}
{% macro schema_location(schema) -%}
  {%- set cache = spark_bucketing.run_cache().setdefault('schema_locations', {}) -%}
  {%- if schema not in cache -%}
    {%- set rows = run_query('describe schema ' ~ spark_bucketing.quote_identifier(schema)).rows -%}
    {%- set uri = (rows | selectattr(0, 'equalto', 'Location') | first)[1].rstrip('/') ~ '/' -%}
    {%- do cache.update({schema: modules.re.sub('%([0-9A-Fa-f]{2})', spark_bucketing.unescaped, uri)}) -%}
  {%- endif -%}
  {{ return(cache[schema]) }}
{%- endmacro %}
