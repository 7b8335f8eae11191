{#-
  misplaced_files_sql() for partitions with specs of their own. All files of a partition whose record is broken are misplaced;
  one without buckets has none that could be.

  specs: from tested_specs()
-#}
{% macro misplaced_files_of_partitions_sql(files, specs) -%}
  select files.directory, files.bucket, count(*) as files
  from (
    select
      regexp_extract(path, '^(.*)/[^/]*$', 1) as directory,
      {{ spark_bucketing.directory_of_file('path') }} as place,
      {{ spark_bucketing.bucket_of_path('path', 'hive') }} as bucket
    from (
      {{ files }}
    )
  ) as files
  left join {{ specs.sql }} as partitions on files.place = partitions.directory
  where not partitions.buckets <=> 0
  group by files.directory, files.bucket, partitions.buckets
  having count(*) > 1 or files.bucket is null or partitions.buckets is null or files.bucket >= partitions.buckets
{%- endmacro %}
