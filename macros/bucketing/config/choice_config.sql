{% macro choice_config(setting, choices, default) -%}
  {%- set value = config.get(setting) -%}
  {%- if value is none -%}
    {{ return(default) }}
  {%- endif -%}
  {%- if value is not string or value | lower not in choices -%}
    {% do spark_bucketing.raise_config_error(setting, value, 'one of ' ~ choices | join(', '), setting ~ "='" ~ (default or choices[0]) ~ "'") %}
  {%- endif -%}
  {{ return(value | lower) }}
{%- endmacro %}
