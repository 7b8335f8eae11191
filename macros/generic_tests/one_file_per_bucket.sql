{#-
  Buckets that are not one file: more than one file, a file whose name has no bucket id, an id of the number of buckets or more.
  Files without rows count as well; see table_files_sql().
-#}
{% test one_file_per_bucket(model) %}
  {%- if execute -%}
    {%- set relation = spark_bucketing.tested_relation(model) -%}
    {%- set layout = spark_bucketing.tested_layout(relation) -%}
    {%- if layout.problem -%}
      {{ spark_bucketing.cannot_tell_sql(layout.problem) }}
    {%- else -%}
      select *
      from (
        {{ spark_bucketing.misplaced_files_sql(spark_bucketing.table_files_sql(model, layout), layout.bucket_hash, layout.buckets) }}
        order by directory, bucket
        limit 1000
      )
    {%- endif -%}
  {%- endif -%}
{% endtest %}
