{#-
  Returns a SQL expression that computes the bucket id of a row, from 0 to buckets - 1.
    spark  pmod(hash(columns), buckets)                    HashPartitioning.partitionIdExpression
    hive   (hive_hash(columns) & 0x7fffffff) % buckets     ObjectInspectorUtils.getBucketNumber, bucketing version 1
    hive2  (hive2_hash(columns) & 0x7fffffff) % buckets    the same with bucketing version 2

  columns: list of {name, type}, in the order of the bucket columns
  hive_hash: string, name of the hash function, from hive_hash_function(); it is not used in the Spark layout
-#}
{% macro bucket_id(columns, buckets, bucket_hash, hive_hash=none) -%}
  {%- set by_udf = hive_hash is not none and hive_hash != bucket_hash ~ '_hash' -%}
  {%- set arguments = [] -%}
  {%- for column in columns -%}
    {%- set name = spark_bucketing.quote_identifier(column.name) -%}
    {%- do arguments.append(spark_bucketing.hive_udf_argument(name, column.type, hive_hash) if by_udf else name) -%}
  {%- endfor -%}
  {%- if bucket_hash != 'spark' -%}
    {{ return('(' ~ hive_hash ~ '(' ~ arguments | join(', ') ~ ') & 2147483647) % ' ~ buckets) }}
  {%- else -%}
    {{ return('pmod(hash(' ~ arguments | join(', ') ~ '), ' ~ buckets ~ ')') }}
  {%- endif -%}
{%- endmacro %}
