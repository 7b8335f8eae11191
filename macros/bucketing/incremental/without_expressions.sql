{% macro without_expressions(columns) -%}
  {%- set plain = [] -%}
  {%- for column in columns -%}
    {%- do plain.append({'name': column.name, 'type': column.type}) -%}
  {%- endfor -%}
  {{ return(plain) }}
{%- endmacro %}
