{#- Where a managed table of this name lies unless it is told otherwise; the schema's own place is asked for once in a run. -#}
{% macro default_location(relation) -%}
  {%- set cache = spark_bucketing.run_cache().setdefault('schema_locations', {}) -%}
  {%- if relation.schema not in cache -%}
    {%- set rows = run_query('describe schema ' ~ spark_bucketing.quote_identifier(relation.schema)).rows -%}
    {%- do cache.update({relation.schema: (rows | selectattr(0, 'equalto', 'Location') | first)[1].rstrip('/')}) -%}
  {%- endif -%}
  {{ return(cache[relation.schema] ~ '/' ~ relation.identifier | lower) }}
{%- endmacro %}
