{#-
  Files with rows whose hash belongs to another bucket than the file's name says, or whose name says none. Rows are
  counted by file and computed bucket first, so that names are taken apart once for each file and not for each row.
-#}
{% test rows_in_their_buckets(model) %}
  {%- if execute -%}
    {%- set relation = spark_bucketing.tested_relation(model) -%}
    {%- set layout = spark_bucketing.tested_layout(relation) -%}
    {%- set keys = spark_bucketing.bucket_key_columns(relation, layout) if not layout.problem else {'problem': layout.problem} -%}
    {%- if keys.problem -%}
      {{ spark_bucketing.cannot_tell_sql(keys.problem) }}
    {%- else -%}
      {%- set hive_hash = spark_bucketing.hive_hash_function() if layout.bucket_hash == 'hive' else none -%}
      select *
      from (
        select
          file,
          bucket_in_name,
          min(bucket_of_rows) as lowest_bucket_of_rows,
          max(bucket_of_rows) as highest_bucket_of_rows,
          sum(row_count) as misplaced_rows
        from (
          select
            file,
            {{ spark_bucketing.bucket_of_path('file', layout.bucket_hash) }} as bucket_in_name,
            bucket_of_rows,
            row_count
          from (
            select file, bucket_of_rows, count(*) as row_count
            from (
              select
                input_file_name() as file,
                {{ spark_bucketing.bucket_id(keys.columns, layout.buckets, layout.bucket_hash, hive_hash) }} as bucket_of_rows
              from {{ spark_bucketing.tested_rows(model) }}
            )
            group by file, bucket_of_rows
          )
        )
        where not bucket_in_name <=> bucket_of_rows
        group by file, bucket_in_name
        order by misplaced_rows desc, file
        limit 1000
      )
    {%- endif -%}
  {%- endif -%}
{% endtest %}
