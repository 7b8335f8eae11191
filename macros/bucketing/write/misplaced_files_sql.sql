{#-
  Query for the buckets that are not one file: directory, bucket (NULL where the file's name has none), number of files.
    Hive layout   00003_0_part-..., and 000003_0 as Hive itself names them
    Spark layout  part-00003-<uuid>_00003.c000.snappy.parquet
-#}
{% macro misplaced_files_sql(relation_sql, bucket_hash, buckets, where='true') -%}
  select directory, bucket, count(*) as files
  from (
    select distinct
      regexp_extract(path, '^(.*)/[^/]*$', 1) as directory,
      {{ spark_bucketing.bucket_of_path('path', bucket_hash) }} as bucket,
      path
    from (select distinct input_file_name() as path from {{ relation_sql }} where {{ where }})
  )
  group by directory, bucket
  having count(*) > 1 or bucket is null or bucket >= {{ buckets }}
{%- endmacro %}


{#- SQL for the bucket that a file's name claims, or NULL. -#}
{% macro bucket_of_path(path, bucket_hash) -%}
  {%- set pattern = '/([0-9]+)_[0-9]+[^/]*$' if bucket_hash == 'hive' else '_([0-9]+)(?:[.][^/]*)?$' -%}
  try_cast(nullif(regexp_extract({{ path }}, '{{ pattern }}', 1), '') as int)
{%- endmacro %}
