{#- Returns a relation with backticks. dbt-spark renders relations unquoted, which fails for names such as `select` or `1st`. -#}
{% macro quote_relation(relation) -%}
  {{- return(spark_bucketing.quote_identifier(relation.schema) ~ '.' ~ spark_bucketing.quote_identifier(relation.identifier)) -}}
{%- endmacro %}
