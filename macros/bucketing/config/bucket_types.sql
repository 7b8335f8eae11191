{#- Returns the valid types of bucket columns, without type parameters. -#}
{% macro bucket_types(bucket_hash) -%}
  {{ return(spark_bucketing.config_schema().hashes[bucket_hash].types) }}
{%- endmacro %}


{#- Returns the types for which a SQL expression computes the same bucket as the writer. -#}
{% macro hashed_types(bucket_hash) -%}
  {{ return(spark_bucketing.config_schema().hashes[bucket_hash].hashed_types) }}
{%- endmacro %}
