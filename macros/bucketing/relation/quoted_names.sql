{#- The column names in a list such as [`a`, `b c`]. -#}
{% macro quoted_names(text) -%}
  {%- set names = [] -%}
  {%- for name in modules.re.findall('`((?:[^`]|``)+)`', text) -%}
    {%- do names.append(name | replace('``', '`')) -%}
  {%- endfor -%}
  {{ return(names) }}
{%- endmacro %}
