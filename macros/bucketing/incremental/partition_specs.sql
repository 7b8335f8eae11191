{#-
  Returns PARTITION (...) clauses.

  partitions: list of lists of strings, with none for NULL
-#}
{% macro partition_specs(partition_by, partitions) -%}
  {%- set specs = [] -%}
  {%- for values in partitions -%}
    {%- set items = [] -%}
    {%- for name, value in zip(partition_by, values) -%}
      {%- do items.append(spark_bucketing.quote_identifier(name) ~ ' = ' ~ ('null' if value is none else spark_bucketing.string_literal(value))) -%}
    {%- endfor -%}
    {%- do specs.append('partition (' ~ items | join(', ') ~ ')') -%}
  {%- endfor -%}
  {{ return(specs) }}
{%- endmacro %}
