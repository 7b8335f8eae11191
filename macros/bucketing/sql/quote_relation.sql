{#- dbt-spark renders relations unquoted; a name such as `select` or `1st` needs its backticks. -#}
{% macro quote_relation(relation) -%}
  {{- return(spark_bucketing.quote_identifier(relation.schema) ~ '.' ~ spark_bucketing.quote_identifier(relation.identifier)) -}}
{%- endmacro %}
