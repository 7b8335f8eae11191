{#-
  Select list for these columns, each by its expression, if it has one.

  An empty string in a partition column becomes NULL here, and so does the name of NULL's own directory: Spark and Hive store
  all of them in the same partition, which must have one writer, and be recognised as touched.
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
