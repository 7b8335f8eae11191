{#-
  Types of bucket columns, without their parameters: those of hashed_types() but float and double. -0.0 and 0.0 are equal, so that
  Spark compares and groups by another value than the column's, and never reads buckets of such a column.
-#}
{% macro bucket_types(bucket_hash) -%}
  {{ return(spark_bucketing.hashed_types(bucket_hash) | reject('in', ['float', 'double']) | list) }}
{%- endmacro %}


{#-
  Types whose hash SQL can compute as the writer does.
    Hive layout   only those for which Catalyst's HiveHash is Hive's own hash: varchar, char and binary hash differently in
                  the two, timestamps depend on the time zone and on fractions before 1970
    Spark layout  what Murmur3Hash accepts
-#}
{% macro hashed_types(bucket_hash) -%}
  {%- set types = ['boolean', 'tinyint', 'smallint', 'int', 'bigint', 'float', 'double', 'decimal', 'string', 'date'] -%}
  {{ return(types if bucket_hash == 'hive' else types + ['varchar', 'char', 'binary', 'timestamp', 'timestamp_ntz']) }}
{%- endmacro %}
