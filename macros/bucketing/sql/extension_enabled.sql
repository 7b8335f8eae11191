{#- Returns whether the session extension is loaded and enabled. If the extension is enabled, each write seals its files. -#}
{% macro extension_enabled() -%}
  {%- set enabled = spark_bucketing.session_settings().get('spark.bucketing.enabled') -%}
  {{ return((enabled is none or enabled[1] | lower == 'true') and spark_bucketing.is_extensions_function('bucket_specs', 'BucketSpecsFunction')) }}
{%- endmacro %}
