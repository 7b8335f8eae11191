{#-
  Types of bucket columns, without their parameters.
    Hive layout   only those for which Catalyst's HiveHash is Hive's own hash: varchar, char and binary hash differently in
                  the two, timestamps depend on the time zone and on fractions before 1970
    Spark layout  what Murmur3Hash accepts
-#}
{% macro bucket_types(bucket_hash) -%}
  {%- set types = ['boolean', 'tinyint', 'smallint', 'int', 'bigint', 'float', 'double', 'decimal', 'string', 'date'] -%}
  {{ return(types if bucket_hash == 'hive' else types + ['varchar', 'char', 'binary', 'timestamp', 'timestamp_ntz']) }}
{%- endmacro %}
