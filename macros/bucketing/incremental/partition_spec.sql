{% macro partition_spec(partition_by, values) -%}
  {%- set items = [] -%}
  {%- for name in partition_by -%}
    {%- set value = values[loop.index0] -%}
    {%- do items.append(spark_bucketing.quote_identifier(name) ~ ' = ' ~ ('null' if value is none else spark_bucketing.string_literal(value))) -%}
  {%- endfor -%}
  {{ return('partition (' ~ items | join(', ') ~ ')') }}
{%- endmacro %}
