{#-
  Returns files that contain rows of another bucket than the one in the file's name, and files whose names have no bucket id. The test does not read
  sealed partitions.
-#}
{% test rows_in_their_buckets(model) %}
  {%- call(tested) spark_bucketing.files_test_sql(model) -%}
    {%- set problem = spark_bucketing.add_key_columns(tested) if tested.specs.loose else none -%}
    {%- if problem -%}
      {{ spark_bucketing.inconclusive_sql(problem) }}
    {%- elif not tested.specs.loose -%}
      {{ spark_bucketing.literal_rows_sql(['file', 'bucket_in_name', 'misplaced_rows'], []) }}
    {%- else -%}
      select *
      from (
        select
          file,
          bucket_in_name,
          min(bucket_of_rows) as lowest_bucket_of_rows,
          max(bucket_of_rows) as highest_bucket_of_rows,
          sum(row_count) as misplaced_rows
        from (
          {{ spark_bucketing.rows_by_bucket_sql(tested.specs, tested.layout) }}
        )
        where not bucket_in_name <=> bucket_of_rows or bucket_of_rows is null
        group by file, bucket_in_name
        order by misplaced_rows desc, file
        limit 1000
      )
    {%- endif -%}
  {%- endcall -%}
{% endtest %}
