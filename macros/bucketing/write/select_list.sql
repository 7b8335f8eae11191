{#-
  Returns a select list for columns, each of which may have an expression.

  In partition columns, the list converts empty strings and `__HIVE_DEFAULT_PARTITION__` to NULL, because Spark and Hive store all three in the same
  partition. As a result, the same task writes all three, and the run treats them as one touched partition.
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
