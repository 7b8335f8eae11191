{#-
  Returns a select list for columns with optional expressions.

  Empty strings and `__HIVE_DEFAULT_PARTITION__` in a partition column become NULL. Spark and Hive store them in the same partition as NULL,
  so they must be written by the same task and recognized as touched.
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
