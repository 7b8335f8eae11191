{#-
  Returns the distinct partitions of a query as lists of strings, with none for NULL.

  The leading 'v' prevents dbt from converting 'null' and '' to NULL, and '007' to a number.
-#}
{% macro partition_values(partition_by, source) -%}
  {%- set items = spark_bucketing.quote_columns(partition_by, "concat('v', cast(%s as string))") -%}
  {%- set partitions = [] -%}
  {%- for row in run_query('select distinct ' ~ items ~ ' from ' ~ source).rows -%}
    {%- set values = [] -%}
    {%- for value in row.values() -%}
      {%- do values.append(value[1:] if value is not none else none) -%}
    {%- endfor -%}
    {%- do partitions.append(values) -%}
  {%- endfor -%}
  {{ return(partitions) }}
{%- endmacro %}
