{#-
  Partitions whose record of their buckets does not agree with the partition's own descriptor, with the table, or with the
  files: their names, and their rows. See invalid_records_sql() and invalid_files_sql().
-#}
{% test partition_bucket_specs_valid(model) %}
  {%- if execute -%}
    {%- set relation = spark_bucketing.tested_relation(model) -%}
    {%- set layout = spark_bucketing.tested_layout(relation, bucketed=false) -%}
    {%- set specs = spark_bucketing.validated_specs(relation, layout) if not layout.problem else {'problem': layout.problem} -%}
    {%- if specs.problem -%}
      {{ spark_bucketing.cannot_tell_sql(specs.problem) }}
    {%- else -%}
      select *
      from (
        {{ spark_bucketing.invalid_records_sql(model, layout, specs) }}
        union all
        {{ spark_bucketing.invalid_files_sql(model, layout, specs) }}
        order by partition, problem, found
        limit 1000
      )
    {%- endif -%}
  {%- endif -%}
{% endtest %}
