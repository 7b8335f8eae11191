{#-
  Buckets with `ratio` times the rows of the mean bucket, or more. The mean is over all buckets, empty ones too; a
  partitioned table's buckets are taken over all its partitions. A row's bucket is the one in its file's name: no column
  is read. Rows in files without a valid bucket id fail whatever the ratio is.
-#}
{% test bucket_skew_below(model, ratio) %}
  {%- if execute -%}
    {%- set layout = spark_bucketing.tested_layout(spark_bucketing.tested_relation(model)) -%}
    {%- if ratio is not number or ratio is boolean or ratio <= 1 -%}
      {% do spark_bucketing.raise_argument_error('bucket_skew_below', 'ratio', ratio,
          'a number greater than 1: the largest bucket is never smaller than the mean', 'ratio: 2') %}
    {%- endif -%}
    {%- if layout.problem -%}
      {{ spark_bucketing.cannot_tell_sql(layout.problem) }}
    {%- else -%}
      select *
      from (
        select bucket, bucket_rows, total_rows / {{ layout.buckets }} as mean_rows, bucket_rows * {{ layout.buckets }} / total_rows as ratio
        from (
          select *, sum(bucket_rows) over () as total_rows
          from (
            select {{ spark_bucketing.bucket_of_path('file', layout.bucket_hash) }} as bucket, sum(file_rows) as bucket_rows
            from (
              select file, count(*) as file_rows
              from (select input_file_name() as file from {{ spark_bucketing.tested_rows(model) }})
              group by file
            )
            group by bucket
          )
        )
        where bucket is null or bucket >= {{ layout.buckets }} or bucket_rows * {{ layout.buckets }} / total_rows >= {{ ratio }}
        order by bucket_rows desc, bucket
        limit 1000
      )
    {%- endif -%}
  {%- endif -%}
{% endtest %}
