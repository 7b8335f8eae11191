{#- Returns the Spark version as a list such as [4, 3, 0], without a vendor's suffix. The macro queries the version once per run. -#}
{% macro spark_version() -%}
  {%- set cache = spark_bucketing.run_cache() -%}
  {%- if 'version' not in cache -%}
    {%- set numbers = modules.re.findall('[0-9]+', (run_query('select version()').rows[0][0] | string).split(' ')[0])[:3] -%}
    {%- do cache.update({'version': numbers | map('int') | list}) -%}
  {%- endif -%}
  {{ return(cache.version) }}
{%- endmacro %}
