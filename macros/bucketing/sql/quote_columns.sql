{% macro quote_columns(names) -%}
  {%- set quoted = [] -%}
  {%- for name in names -%}
    {%- do quoted.append(spark_bucketing.quote_identifier(name)) -%}
  {%- endfor -%}
  {{- return(quoted | join(', ')) -}}
{%- endmacro %}
