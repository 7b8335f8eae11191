{#- Returns the differences between the table in the metastore and its expected layout, from the model's config or the test's arguments. -#}
{% test bucket_spec_matches_config(
    model, clustered_by=none, buckets=none, sorted_by=none, bucket_hash=none, file_format=none, partition_by=none, bucketing_version=none
) %}
  {%- if execute -%}
    {%- set relation = spark_bucketing.tested_relation(model) -%}
    {%- set expected = spark_bucketing.configured_layout(relation) -%}
    {%- for property, value in [
        ('clustered_by', clustered_by), ('buckets', buckets), ('sorted_by', sorted_by), ('bucket_hash', bucket_hash),
        ('file_format', file_format), ('partition_by', partition_by), ('bucketing_version', bucketing_version),
    ] if value is not none -%}
      {%- do expected.update({property: value}) -%}
    {%- endfor -%}
    {%- set overridden = expected.get('clustered_by') or expected.get('buckets') -%}
    {%- set found = spark_bucketing.tested_layout(relation, bucketed=not overridden) -%}
    {%- if not overridden and not found.problem and not found.unbucketed -%}
      {%- do found.update({'problem': spark_bucketing.test_problem(relation,
          'neither a model config nor arguments with `clustered_by` and `buckets`',
          'a bucket spec to compare with the table', 'add the arguments `clustered_by` and `buckets` to the test')}) -%}
    {%- endif -%}
    {%- if found.problem -%}
      {{ spark_bucketing.inconclusive_sql(found.problem) }}
    {%- elif found.unbucketed -%}
      {{ spark_bucketing.failure_sql(found.unbucketed) }}
    {%- else -%}
      {%- set differences = [] -%}
      {%- for property, value in expected.items() -%}
        {%- set configured = spark_bucketing.property_text(value) -%}
        {%- set actual = spark_bucketing.property_text(found[property]) -%}
        {%- if configured != actual -%}
          {%- do differences.append([property, configured, actual]) -%}
        {%- endif -%}
      {%- endfor -%}
      {{ spark_bucketing.literal_rows_sql(['property', 'expected', 'found'], differences) }}
    {%- endif -%}
  {%- endif -%}
{% endtest %}
