{#-
  Buckets that are not one file: more than one file, a file whose name has no bucket id, an id of the number of buckets or more.
  Files without rows count as well; see table_files_sql(). Partitions with specs of their own are judged by these.
-#}
{% test one_file_per_bucket(model) %}
  {%- if execute -%}
    {%- set relation = spark_bucketing.tested_relation(model) -%}
    {%- set layout = spark_bucketing.tested_layout(relation) -%}
    {%- set specs = spark_bucketing.tested_specs(relation, layout) if not layout.problem else {'problem': layout.problem} -%}
    {%- if specs.problem -%}
      {{ spark_bucketing.cannot_tell_sql(specs.problem) }}
    {%- else -%}
      {%- set files = spark_bucketing.table_files_sql(model, layout) -%}
      select *
      from (
        {%- if specs %}
        {{ spark_bucketing.misplaced_files_of_partitions_sql(files, specs) }}
        {%- else %}
        {{ spark_bucketing.misplaced_files_sql(files, layout.bucket_hash, layout.buckets) }}
        {%- endif %}
        order by directory, bucket
        limit 1000
      )
    {%- endif -%}
  {%- endif -%}
{% endtest %}
