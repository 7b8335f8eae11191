{#-
  Returns a query that finds buckets with several files or with an invalid bucket id. The columns are the directory, the bucket id (NULL if the file
  names have none) and the number of files.

  files: string, query that returns each file of the table once, with the column `path`
  buckets: number of buckets, or the name of a column in that query

    Hive layout   00003_0_part-..., or 000003_0 if Hive wrote the file
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
