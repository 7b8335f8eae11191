{#-
  Returns quoted names, separated by commas.

  sql: string, template with %s for each quoted name
-#}
{% macro quote_columns(names, sql='%s') -%}
  {%- set quoted = [] -%}
  {%- for name in names -%}
    {%- do quoted.append(sql | format(spark_bucketing.quote_identifier(name))) -%}
  {%- endfor -%}
  {{- return(quoted | join(', ')) -}}
{%- endmacro %}
