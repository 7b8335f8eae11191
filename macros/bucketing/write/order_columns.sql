{% macro order_columns(columns, partition_by) -%}
  {%- set by_name = {} -%}
  {%- set ordered = [] -%}
  {%- set partition_names = partition_by | map('lower') | list -%}
  {%- for column in columns -%}
    {%- do by_name.update({column.name | lower: column}) -%}
    {%- if column.name | lower not in partition_names -%}
      {%- do ordered.append(column) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- for name in partition_names -%}
    {%- do ordered.append(by_name[name]) -%}
  {%- endfor -%}
  {{ return(ordered) }}
{%- endmacro %}
