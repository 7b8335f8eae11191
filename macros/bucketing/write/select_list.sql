{#-
  Returns a select list for columns with optional expressions.

  In partition columns, converts empty strings and `__HIVE_DEFAULT_PARTITION__` to NULL. Spark and Hive store all three in the same partition, so
  the same task must write them, and all of them must make this partition a touched partition.
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
