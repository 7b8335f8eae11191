{#-
  Buckets with `ratio` times the rows of the mean bucket, or more. The mean is over all buckets, empty ones too; a
  partitioned table's buckets are taken over all its partitions, or all that have the same number of them. A row's bucket is
  the one in its file's name: no column is read. Rows in files without a valid bucket id fail whatever the ratio is.
-#}
{% test bucket_skew_below(model, ratio) %}
  {%- if execute -%}
    {%- set relation = spark_bucketing.tested_relation(model) -%}
    {%- set layout = spark_bucketing.tested_layout(relation) -%}
    {%- if ratio is not number or ratio is boolean or ratio <= 1 -%}
      {% do spark_bucketing.raise_argument_error('bucket_skew_below', 'ratio', ratio,
          'a number greater than 1: the largest bucket is never smaller than the mean', 'ratio: 2') %}
    {%- endif -%}
    {%- set specs = spark_bucketing.tested_specs(model, relation, layout) if not layout.problem and not layout.unbucketed else none -%}
    {%- if layout.problem -%}
      {{ spark_bucketing.cannot_tell_sql(layout.problem) }}
    {%- elif layout.unbucketed -%}
      {{ spark_bucketing.failure_sql(layout.unbucketed) }}
    {%- else -%}
      select *
      from (
        select bucket, bucket_rows, total_rows / buckets as mean_rows, bucket_rows * buckets / total_rows as ratio
        from (
          select *, sum(bucket_rows) over (partition by spec) as total_rows
          from (
            select {{ spark_bucketing.bucket_of_path('file', layout.bucket_hash) }} as bucket, buckets, spec, sum(file_rows) as bucket_rows
            from (
              select file, count(*) as file_rows
              from (select input_file_name() as file from {{ spark_bucketing.tested_rows(model) }})
              group by file
            )
            {%- if specs %}
            left join {{ specs.all_sql }} as partitions on {{ spark_bucketing.directory_of_file('file') }} = partitions.directory
            where buckets is not null or file = ''
            {%- else %}
            cross join (select {{ layout.buckets }} as buckets, 0 as spec)
            {%- endif %}
            group by bucket, buckets, spec
          )
        )
        where bucket is null or buckets is null or bucket >= buckets or bucket_rows * buckets / total_rows >= {{ ratio }}
        order by bucket_rows desc, bucket
        limit 1000
      )
    {%- endif -%}
  {%- endif -%}
{% endtest %}
