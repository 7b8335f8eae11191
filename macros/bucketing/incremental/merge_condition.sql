{% macro merge_condition(merge) -%}
  {%- set conditions = [] -%}
  {%- for key in merge.unique_key -%}
    {%- set name = spark_bucketing.quote_identifier(key) -%}
    {%- do conditions.append('DBT_INTERNAL_SOURCE.' ~ name ~ ' = DBT_INTERNAL_DEST.' ~ name) -%}
  {%- endfor -%}
  {%- for predicate in merge.predicates -%}
    {%- do conditions.append('(' ~ predicate ~ ')') -%}
  {%- endfor -%}
  {{ return(conditions | join(' and ')) }}
{%- endmacro %}
