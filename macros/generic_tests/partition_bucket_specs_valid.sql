{#-
  Partitions whose seal is not what their files are, or not what the partition's own descriptor says, by which Hive and Trino go. What has
  no seal claims nothing, and is left to the other tests.
-#}
{% test partition_bucket_specs_valid(model) %}
  {%- if execute -%}
    {%- set relation = spark_bucketing.tested_relation(model) -%}
    {%- set layout = spark_bucketing.tested_layout(relation) -%}
    {%- set specs = spark_bucketing.tested_specs(model, relation, layout) if not layout.problem and not layout.unbucketed else {} -%}
    {%- if layout.problem -%}
      {{ spark_bucketing.cannot_tell_sql(layout.problem) }}
    {%- elif layout.unbucketed -%}
      {{ spark_bucketing.failure_sql(layout.unbucketed) }}
    {%- elif specs is none -%}
      {%- set missing = spark_bucketing.missing_bucket_specs() -%}
      {{ spark_bucketing.cannot_tell_sql(spark_bucketing.test_problem(relation, missing.found, 'a session that can be asked for the seals', missing.instead)) }}
    {%- else -%}
      {%- set rows = [] -%}
      {%- for part in specs.loose if part.status != 'not-sealed' -%}
        {%- do rows.append([part.partition, part.status, part.problem]) -%}
      {%- endfor -%}
      {%- for part in specs.sealed if part.described.buckets and [part.buckets, part.clustered_by] != [part.described.buckets, part.described.clustered_by] -%}
        {%- do rows.append([part.partition, 'descriptor', part.described.buckets ~ ' buckets by ' ~ part.described.clustered_by | join(', ')
            ~ ', and sealed are ' ~ part.buckets ~ ' by ' ~ part.clustered_by | join(', ')]) -%}
      {%- endfor -%}
      {{ spark_bucketing.literal_rows_sql(['partition', 'problem', 'found'], rows[:1000]) }}
    {%- endif -%}
  {%- endif -%}
{% endtest %}
