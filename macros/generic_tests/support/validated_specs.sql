{#-
  tested_specs() for partition_bucket_specs_valid, also of a table that never evolved. A group whose columns cannot be bucket columns of
  the table has `unusable`, why not, instead of `key_columns`.
-#}
{% macro validated_specs(relation, layout) -%}
  {%- set missing = spark_bucketing.missing_bucket_specs() -%}
  {%- set expected = 'a partitioned table of the Hive layout, whose partitions may have records of their buckets' -%}
  {%- if not layout.partition_by -%}
    {{ return({'problem': spark_bucketing.test_problem(relation, 'a table without partitions', expected,
        'test rows_in_their_buckets and bucket_spec_matches_config')}) }}
  {%- elif layout.bucket_hash != 'hive' -%}
    {{ return({'problem': spark_bucketing.test_problem(relation, 'a table of the Spark layout, or a plain one of Spark', expected,
        'leave this test out: its partitions have no buckets of their own')}) }}
  {%- elif missing -%}
    {{ return({'problem': spark_bucketing.test_problem(relation, missing.found, 'a session that can be asked for the records', missing.instead)}) }}
  {%- elif layout.bucketing_version != '1' -%}
    {{ return(spark_bucketing.bucket_key_columns(relation, layout)) }}
  {%- endif -%}
  {%- set specs = spark_bucketing.partition_groups(relation, layout) -%}
  {%- for group in specs.groups if group.buckets -%}
    {%- set keys = spark_bucketing.bucket_key_columns(relation, dict(layout, clustered_by=group.clustered_by)) -%}
    {%- do group.update({'unusable': modules.re.findall('found: *(.*)', keys.problem)[0]} if keys.problem else {'key_columns': keys.columns}) -%}
  {%- endfor -%}
  {{ return(specs) }}
{%- endmacro %}
