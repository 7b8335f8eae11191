{#- Returns the column names in a text such as [`a`, `b c`]. -#}
{% macro quoted_names(text) -%}
  {{ return(modules.re.findall('`((?:[^`]|``)+)`', text) | map('replace', '``', '`') | list) }}
{%- endmacro %}
