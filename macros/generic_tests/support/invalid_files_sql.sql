{#-
  Query for the files that are not what the record of their partition says, in the columns of invalid_records_sql().
    name   no bucket id in the name, or one of the number of buckets or more; also of files without rows
    rows   rows that the record's spec puts into another bucket than the name says
-#}
{% macro invalid_files_sql(tested, layout, specs) -%}
  select partition, 'name' as problem, path as found, concat('a bucket from 0 to ', buckets - 1, ' in the name') as expected
  from (
    select path, {{ spark_bucketing.bucket_of_path('path', 'hive') }} as bucket
    from ({{ spark_bucketing.table_files_sql(tested, layout) }})
  )
  join {{ specs.sql }} as partitions on {{ spark_bucketing.directory_of_file('path') }} = partitions.directory
  where buckets > 0 and (bucket is null or bucket >= buckets)
  union all
  select
    partition,
    'rows' as problem,
    concat(sum(row_count), ' row(s) of buckets ', min(bucket_of_rows), ' to ', max(bucket_of_rows), ' in ', file) as found,
    concat('rows of bucket ', bucket_in_name, ' of ', buckets) as expected
  from ({{ spark_bucketing.rows_by_own_bucket_sql(tested, specs) }})
  where bucket_in_name < buckets and bucket_in_name <> bucket_of_rows
  group by partition, buckets, file, bucket_in_name
{%- endmacro %}
