{#-
  Returns a query that counts the rows in unsealed partitions, by file and bucket. The columns are file, partition, buckets, bucket_in_name,
  bucket_of_rows and row_count.

  The query first counts rows by file and computed bucket, so that it parses each file name once instead of once per row. For each row, it computes
  the bucket with every bucket spec in the table. Of these buckets, the query uses the one that belongs to the spec of the file's partition.

  specs: dict, from tested_specs(), with key columns
-#}
{% macro rows_by_bucket_sql(specs, layout) -%}
  {%- set hive_hash = spark_bucketing.hive_hash_function(layout.bucket_hash) if layout.bucket_hash != 'spark' else none -%}
  {%- set ids = [] -%}
  {%- for group in specs.groups -%}
    {%- do ids.append(spark_bucketing.bucket_id(group.key_columns, group.buckets, layout.bucket_hash, hive_hash)) -%}
  {%- endfor -%}
  select
    file,
    partition,
    buckets,
    {{ spark_bucketing.bucket_id_of_path('file', layout.bucket_hash) }} as bucket_in_name,
    get(bucket_ids, spec) as bucket_of_rows,
    row_count
  from (
    select file, bucket_ids, count(*) as row_count
    from (
      select input_file_name() as file, cast(array({{ ids | join(', ') }}) as array<int>) as bucket_ids
      from {{ specs.rows }}
    )
    group by file, bucket_ids
  )
  {#- If `where` causes a shuffle, rows have no file names. The test must not pass in this case. -#}
  left join {{ specs.sql }} as partitions on {{ spark_bucketing.is_of_partition(specs, 'file') }}
  where buckets is not null or file = ''
{%- endmacro %}
