{#- Backslash is an escape character in Spark's string literals, so it goes first. -#}
{% macro string_literal(value) -%}
  {{- return("'" ~ (value | string | replace('\\', '\\\\') | replace("'", "\\'")) ~ "'") -}}
{%- endmacro %}
