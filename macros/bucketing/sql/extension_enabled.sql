{#- Whether the session has the extension, switched on, which leaves a seal with each write. -#}
{% macro extension_enabled() -%}
  {%- set enabled = spark_bucketing.session_settings().get('spark.bucketing.enabled') -%}
  {{ return((enabled is none or enabled[1] | lower == 'true') and spark_bucketing.is_extensions_function('bucket_specs', 'BucketSpecsFunction')) }}
{%- endmacro %}
