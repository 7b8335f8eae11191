{% macro select_list(columns) -%}
  {%- set items = [] -%}
  {%- for column in columns -%}
    {%- set name = spark_bucketing.quote_identifier(column.name) -%}
    {%- set expression = column.get('expression', name) -%}
    {%- do items.append(expression if expression == name else expression ~ ' as ' ~ name) -%}
  {%- endfor -%}
  {{ return(items | join(', ')) }}
{%- endmacro %}
