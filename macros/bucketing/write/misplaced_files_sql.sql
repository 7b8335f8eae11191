{#-
  Query for the buckets that are not one file: directory, bucket (NULL where the file's name has none), number of files.

  files: query for the table's files, each once, as `path`
  buckets: how many there are, or the column of that query that says so

    Hive layout   00003_0_part-..., and 000003_0 as Hive itself names them
    Spark layout  part-00003-<uuid>_00003.c000.snappy.parquet
-#}
{% macro misplaced_files_sql(files, bucket_hash, buckets) -%}
  select directory, bucket, count(*) as files
  from (
    select
      regexp_extract(path, '^(.*)/[^/]*$', 1) as directory,
      {{ spark_bucketing.bucket_id_of_path('path', bucket_hash) }} as bucket,
      {{ buckets }} as buckets
    from (
      {{ files }}
    )
  )
  group by directory, bucket
  having count(*) > 1 or bucket is null or bucket >= max(buckets)
{%- endmacro %}
