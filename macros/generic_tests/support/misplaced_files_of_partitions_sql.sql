{#-
  misplaced_files_sql() for partitions with specs of their own.

  specs: from tested_specs(); its loose partitions are looked at
-#}
{% macro misplaced_files_of_partitions_sql(files, specs, layout) -%}
  select files.directory, files.bucket, count(*) as files
  from (
    select
      regexp_extract(path, '^(.*)/[^/]*$', 1) as directory,
      {{ spark_bucketing.directory_of_file('path') }} as place,
      {{ spark_bucketing.bucket_of_path('path', layout.bucket_hash) }} as bucket
    from (
      {{ files }}
    )
  ) as files
  join {{ specs.sql }} as partitions on files.place = partitions.directory
  group by files.directory, files.bucket, partitions.buckets
  having count(*) > 1 or files.bucket is null or files.bucket >= partitions.buckets
{%- endmacro %}
