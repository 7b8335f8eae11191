{#-
  Returns the validated config of an organized model: a layout like that of bucketing_config(), without buckets, with
  {file_count, file_strategy, scale_factor}. Runs no query, so that dbt can call it while it parses the project.
-#}
{% macro organized_config(node=model) -%}
  {% do spark_bucketing.validate_config_keys(node=node, organized=true) %}
  {%- for setting in ['clustered_by', 'buckets', 'sorted_by', 'bucket_hash', 'write_tasks'] if node.config.get(setting) is not none -%}
    {% do spark_bucketing.raise_config_error(setting, node.config.get(setting), 'no bucketing options: organized tables have no buckets',
        "materialized='bucketed_table', or remove `" ~ setting ~ '`', node=node) %}
  {%- endfor -%}
  {%- set partition_by = spark_bucketing.column_list_config('partition_by', [], node=node) -%}
  {%- set strategy = spark_bucketing.choice_config('file_strategy', spark_bucketing.file_strategies(), 'exact',
      {'hash': 'by_column', 'salted': 'by_column_salted', 'range': 'by_range', 'roundrobin': 'repartition', 'round_robin': 'repartition', 'rebalance': 'exact'}, node=node) -%}
  {%- if strategy == 'by_column' and not partition_by -%}
    {% do spark_bucketing.raise_config_error('file_strategy', strategy ~ ', without `partition_by`',
        '`partition_by` with this strategy, which distributes rows by the partition columns', "partition_by=['ds'], or remove `file_strategy` to use the default, 'exact'", node=node) %}
  {%- endif -%}
  {%- set range_by = spark_bucketing.column_list_config('range_by', [], node=node) -%}
  {%- set implicit_partition_by = spark_bucketing.column_list_config('implicit_partition_by', [], node=node) -%}
  {% do spark_bucketing.validate_range_by(range_by, implicit_partition_by, partition_by, strategy, node=node) %}
  {%- set range_boundaries_from = spark_bucketing.range_boundaries_config(range_by, node=node) -%}
  {%- set layout = {
      'clustered_by': [],
      'sorted_by': [],
      'partition_by': partition_by,
      'range_by': range_by,
      'implicit_partition_by': implicit_partition_by,
      'range_boundaries_from': range_boundaries_from,
      'bucket_hash': 'spark',
      'file_format': spark_bucketing.choice_config('file_format', ['parquet', 'orc'], 'parquet', node=node),
      'location_root': spark_bucketing.location_root_config(node=node),
      'tblproperties': spark_bucketing.mapping_config('tblproperties', node=node),
      'options': spark_bucketing.mapping_config('options', node=node),
      'file_count': spark_bucketing.file_count_config(partition_by + implicit_partition_by, range_boundaries_from, node=node),
      'file_strategy': strategy,
      'scale_factor': spark_bucketing.scale_factor_config(strategy, node=node),
  } -%}
  {% do spark_bucketing.validate_properties(layout, node=node) %}
  {{ return(layout) }}
{%- endmacro %}


{#- Returns the strategies that distribute rows over tasks. docs/explanation/file-layout.md compares them. -#}
{% macro file_strategies() -%}
  {{ return(['exact', 'coalesce', 'repartition', 'by_column', 'by_column_salted', 'by_range']) }}
{%- endmacro %}


{#- Returns the number of tasks per file. A factor above 1 reduces hash collisions. -#}
{% macro scale_factor_config(strategy, node=model) -%}
  {%- set value = node.config.get('scale_factor') -%}
  {%- if value is none -%}
    {{ return(1) }}
  {%- endif -%}
  {%- if value is not number or value is boolean or value <= 0 or value > 100 -%}
    {% do spark_bucketing.raise_config_error('scale_factor', value, 'a number above 0, up to 100', 'scale_factor=3', node=node) %}
  {%- elif strategy != 'by_column_salted' -%}
    {% do spark_bucketing.raise_config_error('scale_factor', value, "no `scale_factor` with file_strategy='" ~ strategy ~ "'; it only affects 'by_column_salted'",
        'remove `scale_factor`', node=node) %}
  {%- endif -%}
  {{ return(value) }}
{%- endmacro %}


{#- Raises an error if `range_by` or `implicit_partition_by` contradict other settings. resolve_organized_layout() checks their columns. -#}
{% macro validate_range_by(range_by, implicit_partition_by, partition_by, strategy, node=model) -%}
  {%- if range_by | length > 1 -%}
    {% do spark_bucketing.raise_config_error('range_by', range_by, 'one column; each file covers a range of its values',
        "range_by='" ~ range_by[0] ~ "'; move columns with few distinct values to implicit_partition_by", node=node) %}
  {%- endif -%}
  {%- set taken = dict.fromkeys(partition_by | map('lower'), 'partition_by') -%}
  {%- for setting, names in [('implicit_partition_by', implicit_partition_by), ('range_by', range_by)] -%}
    {%- for name in names -%}
      {%- if name | lower in taken -%}
        {% do spark_bucketing.raise_config_error(setting, name, 'a column that is not in `' ~ taken[name | lower] ~ '`', 'remove it from one of the two settings', node=node) %}
      {%- endif -%}
      {%- do taken.update({name | lower: setting}) -%}
    {%- endfor -%}
  {%- endfor -%}
  {%- if (range_by or implicit_partition_by) and strategy != 'exact' -%}
    {% do spark_bucketing.raise_config_error('file_strategy', strategy,
        "'exact' with `range_by` or `implicit_partition_by`, which plan every file", 'remove `file_strategy`', node=node) %}
  {%- endif -%}
{%- endmacro %}
