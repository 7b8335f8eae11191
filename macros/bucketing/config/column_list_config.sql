{#-
  Returns the column names of a config, which can be a string or a list, as a list of distinct names.

  repeated: bool, whether a name may occur more than once
-#}
{% macro column_list_config(setting, default=none, repeated=false, node=model) -%}
  {%- set value = node.config.get(setting) -%}
  {%- if value is none -%}
    {{ return(default) }}
  {%- endif -%}
  {%- set names = [value] if value is string else value -%}
  {%- if names is mapping or names is not iterable -%}
    {% do spark_bucketing.raise_config_error(setting, value, 'a column name or a list of column names', setting ~ "=['column_a', 'column_b']", node=node) %}
  {%- endif -%}
  {%- set seen = [] -%}
  {%- set distinct = [] -%}
  {%- for name in names -%}
    {%- if name is not string or not name | trim -%}
      {% do spark_bucketing.raise_config_error(setting, names, 'column names, each a non-empty string', setting ~ "=['column_a', 'column_b']", node=node) %}
    {%- endif -%}
    {%- if name | lower in seen and not repeated -%}
      {% do spark_bucketing.raise_config_error(setting, names, 'each column once', "remove the second '" ~ name ~ "'", node=node) %}
    {%- endif -%}
    {%- if name | lower not in seen -%}
      {%- do distinct.append(name) -%}
    {%- endif -%}
    {%- do seen.append(name | lower) -%}
  {%- endfor -%}
  {{ return(distinct) }}
{%- endmacro %}
