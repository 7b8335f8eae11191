{#-
  How many files a table is to have: {setting, value}, the one of the four that the config has; bytes for target_file_size. With `range_boundaries_from`, another
  table's files say it, and none of the four is needed.
-#}
{% macro file_count_config(groups, range_boundaries_from=none, node=model) -%}
  {%- set settings = ['rows_per_file', 'target_file_size', 'num_files', 'files_per_partition'] -%}
  {%- set given = [] -%}
  {%- for setting in settings if node.config.get(setting) is not none -%}
    {%- do given.append(setting) -%}
  {%- endfor -%}
  {%- if range_boundaries_from and not given -%}
    {{ return({'setting': 'range_boundaries_from', 'value': 1}) }}
  {%- elif given | length != 1 -%}
    {% do spark_bucketing.raise_config_error(given[-1] or 'target_file_size', given | join(' and ') or 'none of ' ~ settings | join(', '),
        'exactly one of ' ~ settings | join(', '),
        'keep `' ~ given[0] ~ '` and leave the others out' if given else "target_file_size='256MiB'", node=node) %}
  {%- endif -%}
  {%- set setting = given[0] -%}
  {%- if setting == 'target_file_size' -%}
    {%- set value = spark_bucketing.size_config(setting, node=node) -%}
  {%- else -%}
    {%- set value = spark_bucketing.integer_config(setting, 1, 10 ** 12 if setting == 'rows_per_file' else spark_bucketing.max_num_files(), node=node) -%}
  {%- endif -%}
  {%- if setting == 'files_per_partition' and not groups -%}
    {% do spark_bucketing.raise_config_error(setting, value, 'a model with `partition_by` or `implicit_partition_by`', 'num_files=' ~ value, node=node) %}
  {%- endif -%}
  {{ return({'setting': setting, 'value': value}) }}
{%- endmacro %}


{#- Each file has a task, and a shuffle with more tasks is nothing that Spark is good at. -#}
{% macro max_num_files() -%}
  {{ return(100000) }}
{%- endmacro %}
