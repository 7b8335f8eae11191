{#- Columns that the config of a merge names exist; found in the first run as well, which merges nothing, and before anything is written. -#}
{% macro validate_merge_columns(columns, merge) -%}
  {%- if merge.strategy == 'merge' -%}
    {%- set names = columns | map(attribute='name') | map('lower') | list -%}
    {%- for setting, listed in [('unique_key', merge.unique_key), ('merge_update_columns', merge.update_columns), ('merge_exclude_columns', merge.exclude_columns)] -%}
      {%- for name in listed if name | lower not in names -%}
        {% do spark_bucketing.raise_config_error(setting, name, 'columns of the model: ' ~ columns | map(attribute='name') | join(', '), 'name one of these') %}
      {%- endfor -%}
    {%- endfor -%}
  {%- endif -%}
{%- endmacro %}
