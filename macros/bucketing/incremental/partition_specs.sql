{#- partitions: lists of strings, NULL as none -#}
{% macro partition_specs(partition_by, partitions) -%}
  {%- set specs = [] -%}
  {%- for values in partitions -%}
    {%- set items = [] -%}
    {%- for name in partition_by -%}
      {%- set value = values[loop.index0] -%}
      {%- do items.append(spark_bucketing.quote_identifier(name) ~ ' = ' ~ ('null' if value is none else spark_bucketing.string_literal(value))) -%}
    {%- endfor -%}
    {%- do specs.append('partition (' ~ items | join(', ') ~ ')') -%}
  {%- endfor -%}
  {{ return(specs) }}
{%- endmacro %}
