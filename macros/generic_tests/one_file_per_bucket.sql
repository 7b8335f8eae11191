{#-
  Buckets that are not one file: more than one file, a file whose name has no bucket id, an id of the number of buckets or more.
  Of what is sealed the seal tells; of the rest files without rows count as well; see table_files_sql().
-#}
{% test one_file_per_bucket(model) %}
  {%- if execute -%}
    {%- set relation = spark_bucketing.tested_relation(model) -%}
    {%- set layout = spark_bucketing.tested_layout(relation) -%}
    {%- set specs = spark_bucketing.tested_specs(model, relation, layout) if not layout.problem and not layout.unbucketed else none -%}
    {%- set several = [] -%}
    {%- for part in (specs.sealed if specs else []) if part.files is none or part.files > 1 -%}
      {%- do several.append([part.location, part.partition, part.files]) -%}
    {%- endfor -%}
    {%- if layout.problem -%}
      {{ spark_bucketing.cannot_tell_sql(layout.problem) }}
    {%- elif layout.unbucketed -%}
      {{ spark_bucketing.failure_sql(layout.unbucketed) }}
    {%- elif specs and (several or not specs.loose) -%}
      {{ spark_bucketing.literal_rows_sql(['directory', 'partition', 'files'], several) }}
    {%- else -%}
      {%- set files = spark_bucketing.table_files_sql(model, layout) -%}
      select *
      from (
        {%- if specs %}
        {{ spark_bucketing.misplaced_files_of_partitions_sql(files, specs, layout) }}
        {%- else %}
        {{ spark_bucketing.misplaced_files_sql(files, layout.bucket_hash, layout.buckets) }}
        {%- endif %}
        order by directory, bucket
        limit 1000
      )
    {%- endif -%}
  {%- endif -%}
{% endtest %}
