{#-
  Returns a select list for columns with optional expressions.

  In partition columns, converts empty strings and `__HIVE_DEFAULT_PARTITION__` to NULL. Spark and Hive store all three in the same partition. The
  same task must therefore write them, and each of them must count when the run determines the touched partitions.
-#}
{% macro select_list(columns, partition_by) -%}
  {%- set partition_names = partition_by | map('lower') | list -%}
  {%- set items = [] -%}
  {%- for column in columns -%}
    {%- set name = spark_bucketing.quote_identifier(column.name) -%}
    {%- set value = column.get('expression', name) -%}
    {%- if column.name | lower in partition_names and modules.re.match('string|varchar|char', column.type) -%}
      {%- set value = 'nullif(nullif(' ~ value ~ ", ''), '__HIVE_DEFAULT_PARTITION__')" -%}
    {%- endif -%}
    {%- do items.append(value if value == name else value ~ ' as ' ~ name) -%}
  {%- endfor -%}
  {{ return(items | join(', ')) }}
{%- endmacro %}
