{% macro mapping_config(setting) -%}
  {%- set value = config.get(setting) -%}
  {%- if value is none -%}
    {{ return({}) }}
  {%- endif -%}
  {%- if value is not mapping -%}
    {% do spark_bucketing.raise_config_error(setting, value, 'a mapping of keys to values', setting ~ "={'key': 'value'}") %}
  {%- endif -%}
  {{ return(value) }}
{%- endmacro %}
