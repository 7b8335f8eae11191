{#- The columns with those of partition_by last, in its order. -#}
{% macro order_columns(columns, partition_by) -%}
  {%- set names = partition_by | map('lower') | list -%}
  {%- set data = [] -%}
  {%- for column in columns if column.name | lower not in names -%}
    {%- do data.append(column) -%}
  {%- endfor -%}
  {{ return(data + spark_bucketing.columns_named(columns, names)) }}
{%- endmacro %}


{#- Those of the columns that have these names, in the order of the names. -#}
{% macro columns_named(columns, names) -%}
  {%- set by_name = {} -%}
  {%- for column in columns -%}
    {%- do by_name.update({column.name | lower: column}) -%}
  {%- endfor -%}
  {%- set found = [] -%}
  {%- for name in names -%}
    {%- do found.append(by_name[name | lower]) -%}
  {%- endfor -%}
  {{ return(found) }}
{%- endmacro %}
