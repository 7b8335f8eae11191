{% macro mapping_config(setting, node=model) -%}
  {%- set value = node.config.get(setting) -%}
  {%- if value is none -%}
    {{ return({}) }}
  {%- endif -%}
  {%- if value is not mapping -%}
    {% do spark_bucketing.raise_config_error(setting, value, 'a mapping of keys to values', setting ~ "={'key': 'value'}", node=node) %}
  {%- endif -%}
  {%- for key, entry in value.items() if key is not string or entry is none or entry is not string and entry is not number and entry is not boolean -%}
    {% do spark_bucketing.raise_config_error(setting, key ~ ': ' ~ entry, 'string keys with values that are strings, numbers or booleans',
        setting ~ "={'key': 'value'}", node=node) %}
  {%- endfor -%}
  {{ return(value) }}
{%- endmacro %}
