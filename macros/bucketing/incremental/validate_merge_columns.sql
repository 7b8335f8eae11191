{#- Raises an error if a merge config names a column that does not exist, before anything is written and already in the first run. -#}
{% macro validate_merge_columns(columns, merge) -%}
  {%- if merge.strategy == 'merge' -%}
    {%- set names = columns | map(attribute='name') | map('lower') | list -%}
    {%- for setting, listed in [('unique_key', merge.unique_key), ('merge_update_columns', merge.update_columns), ('merge_exclude_columns', merge.exclude_columns)] -%}
      {%- for name in listed if name | lower not in names -%}
        {% do spark_bucketing.raise_config_error(setting, name, 'a column of the model: ' ~ columns | map(attribute='name') | join(', '), 'use one of these names') %}
      {%- endfor -%}
    {%- endfor -%}
  {%- endif -%}
{%- endmacro %}


{#-
  Raises an error, before anything is written, if Spark cannot resolve the predicates of a merge.

  rows: string, SQL from aligned_rows()
  source: string, SQL of the model's query
-#}
{% macro validate_merge_predicates(rows, source, merge) -%}
  {%- if merge.strategy == 'merge' and merge.predicates -%}
    {%- set error = spark_bucketing.planning_error('select 1 from ' ~ rows ~ ' as DBT_INTERNAL_DEST join ' ~ source ~ ' as DBT_INTERNAL_SOURCE on '
        ~ spark_bucketing.merge_condition(merge)) -%}
    {%- if error -%}
      {%- set reason = modules.re.search('\\[[A-Z_.]+\\] [^\n]*', error) -%}
      {% do spark_bucketing.raise_config_error('incremental_predicates', merge.predicates | join(' and ') ~ (': ' ~ reason.group(0) if reason else ''),
          'conditions on columns of DBT_INTERNAL_DEST (the table) and DBT_INTERNAL_SOURCE (the new rows)', "incremental_predicates=['DBT_INTERNAL_DEST.ds > current_date() - 7']") %}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}
