{#-
  Returns the setting that decides the number of files, as {setting, value}. The value of target_file_size is in bytes. A model must set
  exactly one of the four settings; with `range_boundaries_from` it may set none, because the other table's ranges decide.
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
        'keep `' ~ given[0] ~ '` and remove the others' if given else "target_file_size='256MiB'", node=node) %}
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


{#- Returns the maximum number of files of one write. Each file has its own task, and Spark handles shuffles with more tasks badly. -#}
{% macro max_num_files() -%}
  {{ return(100000) }}
{%- endmacro %}
