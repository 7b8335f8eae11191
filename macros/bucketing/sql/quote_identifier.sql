{% macro quote_identifier(name) -%}
  {{- return('`' ~ (name | string | replace('`', '``')) ~ '`') -}}
{%- endmacro %}
