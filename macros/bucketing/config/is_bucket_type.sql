{% macro is_bucket_type(type, bucket_hash) -%}
  {%- set base = modules.re.split('[(<]', type | lower)[0] | trim -%}
  {{ return(base in spark_bucketing.bucket_types(bucket_hash) and ' collate ' not in type | lower) }}
{%- endmacro %}
