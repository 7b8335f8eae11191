{#-
  Hive layout: only the types for which Catalyst's HiveHash is Hive's own hash. varchar, char and binary hash
  differently in the two, timestamps depend on the time zone and on fractions before 1970.
  Spark layout: what Murmur3Hash accepts.
-#}
{% macro validate_bucket_type(column, bucket_hash) -%}
  {%- set type = column.type | lower -%}
  {%- set base = modules.re.split('[(<]', type)[0] | trim -%}
  {%- set hive_types = ['boolean', 'tinyint', 'smallint', 'int', 'bigint', 'float', 'double', 'decimal', 'string', 'date'] -%}
  {%- set spark_types = hive_types + ['varchar', 'char', 'binary', 'timestamp', 'timestamp_ntz'] -%}
  {%- if bucket_hash == 'hive' and (base not in hive_types or ' collate ' in type) -%}
    {% do spark_bucketing.raise_config_error('clustered_by', column.name ~ ' ' ~ column.type,
        'for bucket_hash=\'hive\' a column of type ' ~ hive_types | join(', ') ~ ': of these alone Spark and Hive are sure to agree on the hash',
        'cast(' ~ column.name ~ ' as string) in the model, or bucket_hash=\'spark\'' if base in spark_types else 'bucket by another column') %}
  {%- elif base not in spark_types or ' collate ' in type -%}
    {% do spark_bucketing.raise_config_error('clustered_by', column.name ~ ' ' ~ column.type, 'a column of type ' ~ spark_types | join(', '), 'bucket by another column') %}
  {%- endif -%}
{%- endmacro %}
