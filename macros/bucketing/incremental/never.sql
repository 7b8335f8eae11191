{% macro never() -%}
  {{ return(false) }}
{%- endmacro %}
