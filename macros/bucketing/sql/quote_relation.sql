{#- Returns the name of a relation with backticks. dbt-spark renders names without quotes, which fails for names such as `select` or `1st`. -#}
{% macro quote_relation(relation) -%}
  {{- return(spark_bucketing.quote_identifier(relation.schema) ~ '.' ~ spark_bucketing.quote_identifier(relation.identifier)) -}}
{%- endmacro %}
