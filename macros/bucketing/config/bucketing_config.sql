{#- Returns the validated config of a bucketed model. Runs no query, so that dbt can call it while it parses the project. -#}
{% macro bucketing_config(node=model) -%}
  {% do spark_bucketing.validate_config_keys(node=node) %}
  {%- set clustered_by = spark_bucketing.column_list_config('clustered_by', node=node) -%}
  {%- set buckets = spark_bucketing.integer_config('buckets', 1, 100000, node=node) -%}
  {%- if not clustered_by -%}
    {% do spark_bucketing.raise_config_error('clustered_by', clustered_by, 'the columns to bucket by, together with `buckets`',
        "clustered_by=['the_join_key'], or materialized='table' for a table without buckets", node=node) %}
  {%- endif -%}
  {%- if buckets is none -%}
    {% do spark_bucketing.raise_config_error('buckets', none, 'the number of buckets, together with `clustered_by`',
        "buckets=64, or materialized='table' for a table without buckets", node=node) %}
  {%- endif -%}
  {%- set sorted_by = spark_bucketing.column_list_config('sorted_by', clustered_by, node=node) -%}
  {%- set partition_by = spark_bucketing.column_list_config('partition_by', [], node=node) -%}
  {%- set partition_names = partition_by | map('lower') | list -%}
  {%- for setting, names in [('clustered_by', clustered_by), ('sorted_by', sorted_by)] -%}
    {%- for name in names if name | lower in partition_names -%}
      {% do spark_bucketing.raise_config_error(setting, name, 'columns that are not in `partition_by`: data files do not contain partition columns',
          "remove '" ~ name ~ "' from `" ~ setting ~ "` or from `partition_by`", node=node) %}
    {%- endfor -%}
  {%- endfor -%}
  {%- set layout = {
      'clustered_by': clustered_by,
      'buckets': buckets,
      'sorted_by': sorted_by,
      'partition_by': partition_by,
      'bucket_hash': spark_bucketing.choice_config('bucket_hash', ['hive', 'hive2', 'spark'], 'hive', node=node),
      'file_format': spark_bucketing.choice_config('file_format', ['parquet', 'orc'], 'parquet', node=node),
      'write_tasks': spark_bucketing.integer_config('write_tasks', 1, 100000, node=node),
      'location_root': spark_bucketing.location_root_config(node=node),
      'tblproperties': spark_bucketing.mapping_config('tblproperties', node=node),
      'options': spark_bucketing.mapping_config('options', node=node),
      'on_bucket_change': spark_bucketing.choice_config('on_bucket_change', ['fail', 'rebuild', 'evolve'], 'fail', node=node),
  } -%}
  {% do spark_bucketing.validate_evolve_config(layout, node=node) %}
  {% do spark_bucketing.validate_properties(layout, node=node) %}
  {{ return(layout) }}
{%- endmacro %}
