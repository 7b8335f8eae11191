{#- Returns the table property bucketing_version for each hash of the Hive layout. Tables in the Spark layout have no such property. -#}
{% macro bucketing_versions() -%}
  {%- set versions = {} -%}
  {%- for name, hash in spark_bucketing.config_schema().hashes.items() if hash.version -%}
    {%- do versions.update({name: hash.version}) -%}
  {%- endfor -%}
  {{ return(versions) }}
{%- endmacro %}


{#-
  Returns the hash for the stated version of a table in the Hive layout. An unknown version counts as 1, so callers must compare the version
  themselves.
-#}
{% macro stated_hash(bucketing_version) -%}
  {%- set names = dict(zip(spark_bucketing.bucketing_versions().values(), spark_bucketing.bucketing_versions())) -%}
  {{ return(names.get(bucketing_version, names['1'])) }}
{%- endmacro %}
