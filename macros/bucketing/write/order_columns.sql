{#- Returns the columns with the partition columns last, in the order of partition_by. -#}
{% macro order_columns(columns, partition_by) -%}
  {%- set last = spark_bucketing.columns_named(columns, partition_by) -%}
  {{ return(columns | reject('in', last) | list + last) }}
{%- endmacro %}


{#- Returns the columns that have these names, in the order of the names. -#}
{% macro columns_named(columns, names) -%}
  {%- set by_name = dict(zip(columns | map(attribute='name') | map('lower'), columns)) -%}
  {%- set found = [] -%}
  {%- for name in names -%}
    {%- do found.append(by_name[name | lower]) -%}
  {%- endfor -%}
  {{ return(found) }}
{%- endmacro %}
