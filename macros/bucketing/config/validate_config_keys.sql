{#-
  Raises an error for a config key that looks like a misspelled key of this package. dbt accepts any key, so a misspelled one would
  be ignored without a message.

  organized: bool, whether to check the keys of organized tables instead of bucketed tables
-#}
{% macro validate_config_keys(node=model, organized=false) -%}
  {%- set misspellings = {
      'clustered_by': ['cluster_by', 'bucket_by', 'bucketed_by', 'bucket_columns', 'bucket_keys', 'bucket_key', 'bucket_cols', 'cluster_columns', 'cluster_cols',
          'cluster_key', 'cluster_keys'],
      'buckets': ['bucket', 'num_buckets', 'n_buckets', 'bucket_count', 'number_of_buckets', 'into_buckets'],
      'sorted_by': ['sort_by', 'order_by', 'ordered_by', 'sort_columns', 'sort_cols', 'sort_keys', 'sort_key'],
      'bucket_hash': ['hash_function', 'bucketing_hash', 'bucketing'],
      'file_format': ['format', 'stored_as'],
      'partition_by': ['partitioned_by', 'partition_columns', 'partition_cols', 'partition_key', 'partition_keys'],
      'write_tasks': ['num_tasks', 'num_write_tasks'],
      'location_root': ['location'],
      'tblproperties': ['table_properties'],
      'on_bucket_change': ['on_buckets_change', 'on_layout_change'],
  } -%}
  {%- do misspellings.update(dict.fromkeys(['unique_key', 'on_schema_change', 'merge_update_columns', 'merge_exclude_columns', 'incremental_predicates',
      'incremental_strategy', 'options', 'batch_size', 'event_time', 'lookback'], [])) -%}
  {%- set misspellings = spark_bucketing.organized_keys(misspellings) if organized else misspellings -%}
  {#- Keys of dbt and its adapters are no misspellings: a model may target several adapters (`sort` and `dist` are for Redshift). -#}
  {%- set known = misspellings.keys() | list + ['predicates', 'begin', 'sort', 'dist', 'tags', 'meta', 'docs', 'group', 'alias', 'schema', 'database', 'access', 'enabled',
      'contract', 'quoting', 'grants', 'packages', 'materialized', 'full_refresh', 'persist_docs', 'column_types', 'freshness', 'sql_header', 'pre-hook', 'post-hook',
      'pre_hook', 'post_hook', 'on_configuration_change', 'concurrent_batches', 'static_analysis', 'matched_condition', 'not_matched_condition'] -%}
  {%- for key, value in node.config.items() if value is not none and key not in known -%}
    {%- set meant = namespace(key=none) -%}
    {%- for ours, misspelled in misspellings.items() if key | lower | replace('-', '_') in misspelled + [ours] -%}
      {%- set meant.key = ours -%}
    {%- endfor -%}
    {%- set right = meant.key or spark_bucketing.nearest_name(key, misspellings.keys() | list, within=1) -%}
    {%- if right -%}
      {%- set text = "'" ~ value ~ "'" if value is string else value -%}
      {% do exceptions.raise_compiler_error('Unknown key `' ~ key ~ "` in the config of model '" ~ node.name ~ "'; did you mean `" ~ right ~ '`?\n  found:    ' ~ key ~ '=' ~ text
          ~ '\n  expected: a config key that dbt or this package reads\n  instead:  ' ~ right ~ '=' ~ text) %}
    {%- endif -%}
  {%- endfor -%}
{%- endmacro %}


{#- Returns a dict from each config key of organized tables to its common misspellings. -#}
{% macro organized_keys(bucketed) -%}
  {%- set keys = {
      'rows_per_file': ['max_rows_per_file', 'records_per_file', 'max_records_per_file', 'maxrecordsperfile', 'rows_per_files'],
      'target_file_size': ['file_size', 'max_file_size', 'bytes_per_file', 'filesize'],
      'num_files': ['files', 'number_of_files', 'file_count'],
      'files_per_partition': ['num_files_per_partition', 'files_per_partitions'],
      'file_strategy': ['strategy', 'files_strategy', 'repartition_strategy', 'distribution'],
      'range_by': ['organized_by', 'organize_by', 'organised_by', 'ranged_by', 'zorder_by'],
      'implicit_partition_by': ['split_by', 'splitted_by', 'implicit_partitions_by'],
      'range_boundaries_from': ['bounds_from', 'bounds', 'intervals_from', 'boundaries_from'],
      'scale_factor': ['scale', 'scaling_factor'],
      'delete_when': ['deletes_when', 'delete_if', 'delete_condition'],
      'insert_when': ['inserts_when', 'insert_if'],
      'update_when': ['updates_when', 'update_if'],
      'merge_checks': ['merge_check', 'checks'],
  } -%}
  {%- for key in ['file_format', 'partition_by', 'location_root', 'tblproperties', 'options', 'clustered_by', 'buckets', 'sorted_by', 'bucket_hash', 'write_tasks',
      'unique_key', 'on_schema_change', 'incremental_strategy', 'merge_update_columns', 'merge_exclude_columns', 'incremental_predicates'] -%}
    {%- do keys.update({key: bucketed[key]}) -%}
  {%- endfor -%}
  {{ return(keys) }}
{%- endmacro %}
