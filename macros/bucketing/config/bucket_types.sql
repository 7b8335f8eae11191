{#- Returns the valid types of bucket columns, without type parameters. -#}
{% macro bucket_types(bucket_hash) -%}
  {{ return(spark_bucketing.config_schema().hashes[bucket_hash].types) }}
{%- endmacro %}


{#- Returns the types whose bucket a SQL expression computes exactly as the writer does. -#}
{% macro hashed_types(bucket_hash) -%}
  {{ return(spark_bucketing.config_schema().hashes[bucket_hash].hashed_types) }}
{%- endmacro %}
