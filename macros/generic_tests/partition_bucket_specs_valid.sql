{#-
  Returns partitions whose seal does not match their files or their descriptor, which Hive and Trino use. Other tests cover partitions without a seal.
-#}
{% test partition_bucket_specs_valid(model) %}
  {%- call(tested) spark_bucketing.files_test_sql(model) -%}
    {%- if not tested.specs.known -%}
      {%- set missing = spark_bucketing.missing_bucket_specs() -%}
      {{ spark_bucketing.inconclusive_sql(spark_bucketing.test_problem(tested.relation, missing.found, 'a session with the session extension, which reads the seals', missing.instead)) }}
    {%- else -%}
      {%- set rows = [] -%}
      {%- for part in tested.specs.loose if part.status != 'not-sealed' -%}
        {%- do rows.append([part.partition, part.status, part.problem]) -%}
      {%- endfor -%}
      {%- for part in tested.specs.sealed if part.described.buckets and [part.buckets, part.clustered_by] != [part.described.buckets, part.described.clustered_by] -%}
        {%- do rows.append([part.partition, 'descriptor', part.described.buckets ~ ' buckets by ' ~ part.described.clustered_by | join(', ')
            ~ ', but the seal has ' ~ part.buckets ~ ' by ' ~ part.clustered_by | join(', ')]) -%}
      {%- endfor -%}
      {{ spark_bucketing.literal_rows_sql(['partition', 'problem', 'found'], rows[:1000]) }}
    {%- endif -%}
  {%- endcall -%}
{% endtest %}
