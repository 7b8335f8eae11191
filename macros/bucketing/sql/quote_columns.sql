{#- Names quoted and joined by commas, each in the place of %s in a piece of SQL. -#}
{% macro quote_columns(names, sql='%s') -%}
  {%- set quoted = [] -%}
  {%- for name in names -%}
    {%- do quoted.append(sql | format(spark_bucketing.quote_identifier(name))) -%}
  {%- endfor -%}
  {{- return(quoted | join(', ')) -}}
{%- endmacro %}
