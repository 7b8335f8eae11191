{#- Returns the intermediate table with this role. -#}
{% macro intermediate_relation(relation, role) -%}
  {{ return(spark_bucketing.intermediate_relations(relation)[role]) }}
{%- endmacro %}
