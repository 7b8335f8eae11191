{#-
  SQL for the bucket of a row, 0 to buckets - 1.
    spark  pmod(hash(columns), buckets)                    HashPartitioning.partitionIdExpression
    hive   (hive_hash(columns) & 0x7fffffff) % buckets     ObjectInspectorUtils.getBucketNumber
  A date goes in as its day number, which is its hash: on the way through java.sql.Date, days before 1582 would shift.
  Bytes that are not UTF-8 change on the way through java.lang.String, and with them the hash: they are refused.

  columns: list of {name, type}, in the order of the bucket columns
  hive_hash: name of the hash function, from hive_hash_function(); unused for the Spark layout
-#}
{% macro bucket_id(columns, buckets, bucket_hash, hive_hash=none) -%}
  {%- set arguments = [] -%}
  {%- for column in columns -%}
    {%- set name = spark_bucketing.quote_identifier(column.name) -%}
    {%- if bucket_hash == 'hive' and column.type == 'date' -%}
      {%- do arguments.append('unix_date(' ~ name ~ ')') -%}
    {%- elif bucket_hash == 'hive' and column.type == 'string' -%}
      {%- do arguments.append('if(is_valid_utf8(' ~ name ~ ') is false, raise_error(' ~ spark_bucketing.string_literal(
          "Model '" ~ model.name ~ "': the bucket column " ~ column.name ~ " holds a string that is not valid UTF-8, which Hive's hash cannot take. Use make_valid_utf8("
          ~ column.name ~ ") in the model, or bucket_hash='spark'.") ~ '), ' ~ name ~ ')') -%}
    {%- else -%}
      {%- do arguments.append(name) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- if bucket_hash == 'hive' -%}
    {{ return('(' ~ hive_hash ~ '(' ~ arguments | join(', ') ~ ') & 2147483647) % ' ~ buckets) }}
  {%- else -%}
    {{ return('pmod(hash(' ~ arguments | join(', ') ~ '), ' ~ buckets ~ ')') }}
  {%- endif -%}
{%- endmacro %}
