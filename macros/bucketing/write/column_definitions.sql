{#- Returns the column list for CREATE TABLE: the data columns in the query's order, and then the partition columns. -#}
{% macro column_definitions(columns, partition_by) -%}
  {%- set definitions = [] -%}
  {%- for column in spark_bucketing.order_columns(columns, partition_by) -%}
    {%- set comment = spark_bucketing.column_comment(column) -%}
    {%- set definition = spark_bucketing.quote_identifier(column.name) ~ ' ' ~ spark_bucketing.quoted_type(column.type) -%}
    {%- do definitions.append(definition ~ (' comment ' ~ spark_bucketing.string_literal(comment) if comment else '')) -%}
  {%- endfor -%}
  {{ return(definitions | join(',\n    ')) }}
{%- endmacro %}
