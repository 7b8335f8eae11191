{% macro always() -%}
  {{ return(true) }}
{%- endmacro %}
