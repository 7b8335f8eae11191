{#- Names quoted and joined by commas, each qualified by `of`, if given. -#}
{% macro quote_columns(names, of=none) -%}
  {%- set quoted = [] -%}
  {%- for name in names -%}
    {%- do quoted.append((of ~ '.' if of else '') ~ spark_bucketing.quote_identifier(name)) -%}
  {%- endfor -%}
  {{- return(quoted | join(', ')) -}}
{%- endmacro %}
