{#-
  Returns the buckets whose row count is at least `ratio` times the mean row count of all buckets, including empty buckets. The test adds up the rows
  of a bucket over all partitions with the same bucket spec.

  The name of a file contains the bucket id of its rows, so the test reads no columns. Files that have rows but no valid bucket id always fail the
  test.
-#}
{% test bucket_skew_below(model, ratio) %}
  {%- if execute and (ratio is not number or ratio is boolean or ratio <= 1) -%}
    {% do spark_bucketing.raise_argument_error('bucket_skew_below', 'ratio', ratio,
        'a number greater than 1; the largest bucket is never smaller than the mean', 'ratio: 2') %}
  {%- endif -%}
  {%- call(tested) spark_bucketing.files_test_sql(model) -%}
    select *
    from (
      select bucket, bucket_rows, total_rows / buckets as mean_rows, bucket_rows * buckets / total_rows as ratio, empty_buckets
      from (
        select *, sum(bucket_rows) over (partition by spec) as total_rows, buckets - count(bucket) over (partition by spec) as empty_buckets
        from (
          select {{ spark_bucketing.bucket_id_of_path('file', tested.layout.bucket_hash) }} as bucket, buckets, spec, sum(file_rows) as bucket_rows
          from (
            select file, count(*) as file_rows
            from (select input_file_name() as file from {{ spark_bucketing.tested_rows(model) }})
            group by file
          )
          left join {{ tested.specs.all_sql }} as partitions on {{ spark_bucketing.is_of_partition(tested.specs, 'file') }}
          where buckets is not null or file = ''
          group by bucket, buckets, spec
        )
      )
      where bucket is null or buckets is null or bucket >= buckets or bucket_rows * buckets / total_rows >= {{ ratio }}
      order by bucket_rows desc, bucket
      limit 1000
    )
  {%- endcall -%}
{% endtest %}
