{#-
  Returns buckets that have several files, files whose names have no bucket id, and bucket ids that are too large.

  For sealed partitions, the test reads only the seals. In other partitions, files without rows also count; see table_files_sql().
-#}
{% test one_file_per_bucket(model) %}
  {%- call(tested) spark_bucketing.files_test_sql(model) -%}
    {%- set several = [] -%}
    {%- for part in tested.specs.sealed if part.files is none or part.files > 1 -%}
      {%- do several.append([part.location, part.partition, part.files]) -%}
    {%- endfor -%}
    {%- if several or not tested.specs.loose -%}
      {{ spark_bucketing.literal_rows_sql(['directory', 'partition', 'files'], several) }}
    {%- else -%}
      {%- set files -%}
        select path, buckets
        from ({{ spark_bucketing.table_files_sql(model, tested.layout) }})
        join {{ tested.specs.sql }} as partitions on {{ spark_bucketing.is_of_partition(tested.specs, 'path') }}
      {%- endset -%}
      select *
      from (
        {{ spark_bucketing.misplaced_files_sql(files, tested.layout.bucket_hash, 'buckets') }}
        order by directory, bucket
        limit 1000
      )
    {%- endif -%}
  {%- endcall -%}
{% endtest %}
