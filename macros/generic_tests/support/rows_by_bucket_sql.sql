{#-
  Query for the rows of the loose partitions by file and bucket: file, bucket_in_name, bucket_of_rows, row_count, with the partition and its
  number of buckets. Rows are counted by file and computed bucket first, so that names are taken apart once for each file and not for
  each row. Each row's bucket is computed by every spec that there is, and each file's rows are then looked at by the one of its partition.

  specs: from tested_specs(), with key columns
-#}
{% macro rows_by_bucket_sql(specs, layout) -%}
  {%- set hive_hash = spark_bucketing.hive_hash_function() if layout.bucket_hash == 'hive' else none -%}
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
  {#- Rows whose file is not known any more, because of a `where` that shuffles, must not pass. -#}
  left join {{ specs.sql }} as partitions on {{ spark_bucketing.is_of_partition(specs, 'file') }}
  where buckets is not null or file = ''
{%- endmacro %}
