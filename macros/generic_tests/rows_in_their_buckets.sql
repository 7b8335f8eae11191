{#- Files with rows whose hash belongs to another bucket than the file's name says, or whose name says none. Nothing is read of what is sealed. -#}
{% test rows_in_their_buckets(model) %}
  {%- if execute -%}
    {%- set relation = spark_bucketing.tested_relation(model) -%}
    {%- set layout = spark_bucketing.tested_layout(relation) -%}
    {%- set specs = spark_bucketing.specs_with_keys(model, relation, layout) if not layout.problem and not layout.unbucketed else {'problem': layout.problem} -%}
    {%- if layout.unbucketed -%}
      {{ spark_bucketing.failure_sql(layout.unbucketed) }}
    {%- elif specs.problem -%}
      {{ spark_bucketing.cannot_tell_sql(specs.problem) }}
    {%- elif specs.groups is defined and not specs.loose -%}
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
          {%- if specs.groups is defined %}
          {{ spark_bucketing.rows_by_own_bucket_sql(specs, layout) }}
          {%- else %}
          {{ spark_bucketing.rows_by_bucket_sql(model, layout, specs.columns) }}
          {%- endif %}
        )
        where not bucket_in_name <=> bucket_of_rows or bucket_of_rows is null
        group by file, bucket_in_name
        order by misplaced_rows desc, file
        limit 1000
      )
    {%- endif -%}
  {%- endif -%}
{% endtest %}
