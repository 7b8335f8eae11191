{#- Returns the valid types of bucket columns, without type parameters. -#}
{% macro bucket_types(bucket_hash) -%}
  {{ return(spark_bucketing.config_schema().bucket_types[bucket_hash]) }}
{%- endmacro %}


{#-
  Returns the types for which a SQL expression computes exactly the same hash as the writer. Version 2 excludes floating-point types, because it
  hashes equal numbers differently.
-#}
{% macro hashed_types(bucket_hash) -%}
  {{ return(spark_bucketing.bucket_types(bucket_hash) + ([] if bucket_hash == 'hive2' else ['float', 'double'])) }}
{%- endmacro %}
