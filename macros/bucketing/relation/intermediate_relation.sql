{#- Returns the intermediate table of a relation that has this role. -#}
{% macro intermediate_relation(relation, role) -%}
  {{ return(spark_bucketing.intermediate_relations(relation)[role]) }}
{%- endmacro %}
