{#- Returns the types that a bucket column can have, without type parameters. -#}
{% macro bucket_types(bucket_hash) -%}
  {{ return(spark_bucketing.config_schema().bucket_types[bucket_hash]) }}
{%- endmacro %}


{#- Returns the types whose bucket hash a SQL expression can compute exactly as the writer does. -#}
{% macro hashed_types(bucket_hash) -%}
  {{ return(spark_bucketing.bucket_types(bucket_hash) + ['float', 'double']) }}
{%- endmacro %}
