{#- Returns the types that a bucket column can have, without type parameters. -#}
{% macro bucket_types(bucket_hash) -%}
  {{ return(spark_bucketing.config_schema().bucket_types[bucket_hash]) }}
{%- endmacro %}


{#-
  Returns the types whose bucket hash a SQL expression can compute exactly as the writer does. Hive's version 2 hashes equal floating-point
  numbers differently, so it has none of these types.
-#}
{% macro hashed_types(bucket_hash) -%}
  {{ return(spark_bucketing.bucket_types(bucket_hash) + ([] if bucket_hash == 'hive2' else ['float', 'double'])) }}
{%- endmacro %}
