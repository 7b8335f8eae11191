{#- Columns of a table in words, to compare and to print. -#}
{% macro describe_columns(relation) -%}
  {%- set items = [] -%}
  {%- for column in spark_bucketing.table_columns(spark_bucketing.quote_relation(relation)) -%}
    {%- do items.append(column.name ~ ' ' ~ column.type) -%}
  {%- endfor -%}
  {{ return(items | join(', ') | lower) }}
{%- endmacro %}
