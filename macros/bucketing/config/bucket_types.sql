{#-
  Returns the types that a bucket column can have, without type parameters.

  float and double are missing: Spark normalizes -0.0 to 0.0 before it joins or groups, so it never uses the buckets of such a column.
-#}
{% macro bucket_types(bucket_hash) -%}
  {{ return(spark_bucketing.hashed_types(bucket_hash) | reject('in', ['float', 'double']) | list) }}
{%- endmacro %}


{#-
  Returns the types whose bucket hash a SQL expression can compute exactly as the writer does.
    hive   the types for which Catalyst's HiveHash matches Hive. It differs for varchar, char and binary. For timestamps
           the result depends on the time zone and on fractional seconds before 1970.
    hive2  the same types without float and double, because equal numbers can have several hashes
    spark  the types that Murmur3Hash accepts
-#}
{% macro hashed_types(bucket_hash) -%}
  {%- set types = ['boolean', 'tinyint', 'smallint', 'int', 'bigint', 'float', 'double', 'decimal', 'string', 'date'] -%}
  {{ return({
      'hive': types,
      'hive2': types | reject('in', ['float', 'double']) | list,
      'spark': types + ['varchar', 'char', 'binary', 'timestamp', 'timestamp_ntz'],
  }[bucket_hash]) }}
{%- endmacro %}
