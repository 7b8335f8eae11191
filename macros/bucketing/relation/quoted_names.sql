{#- Returns the column names in a list such as [`a`, `b c`]. -#}
{% macro quoted_names(text) -%}
  {{ return(modules.re.findall('`((?:[^`]|``)+)`', text) | map('replace', '``', '`') | list) }}
{%- endmacro %}
