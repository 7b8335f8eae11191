{% macro raise_config_error(setting, found, expected, instead) -%}
  {%- set message -%}
    Invalid `{{ setting }}` of model '{{ model.name }}'.
      found:    {{ found }}
      expected: {{ expected }}
      instead:  {{ instead }}
  {%- endset -%}
  {% do exceptions.raise_compiler_error(message) %}
{%- endmacro %}
