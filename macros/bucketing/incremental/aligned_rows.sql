{#-
  Returns a query in parentheses for a table's rows with its future columns. New columns are NULL, and columns with a new type are converted.

  columns: list of {name, type}, the future columns
  existing_columns: list of {name, type}, the current columns
  partition_by: list of names, the future partition columns; empty if they do not change
-#}
{% macro aligned_rows(relation, columns, existing_columns, partition_by) -%}
  {%- set types = dict(zip(existing_columns | map(attribute='name'), existing_columns | map(attribute='type'))) -%}
  {%- set aligned = [] -%}
  {%- for column in columns -%}
    {%- set name = spark_bucketing.quote_identifier(column.name) -%}
    {%- set type = spark_bucketing.quoted_type(column.type) -%}
    {%- if column.name not in types -%}
      {%- set value = 'cast(null as ' ~ type ~ ')' -%}
    {%- elif types[column.name] != column.type -%}
      {#- Without ANSI mode, a failing cast returns NULL and would lose the value. -#}
      {%- set error = spark_bucketing.error_message('Column `' ~ column.name ~ '` of model `' ~ model.name ~ '` has a value that Spark cannot convert.',
          '{value}', 'values of type ' ~ column.type, 'convert or filter such values in the model') -%}
      {%- set value = 'if(' ~ name ~ ' is null, null, coalesce(try_cast(' ~ name ~ ' as ' ~ type ~ '), raise_error(replace('
          ~ spark_bucketing.string_literal(error) ~ ", '{value}', cast(" ~ name ~ ' as string)))))' -%}
    {%- else -%}
      {%- set value = name -%}
    {%- endif -%}
    {%- do aligned.append({'name': column.name, 'type': column.type, 'expression': value}) -%}
  {%- endfor -%}
  {{ return('(select ' ~ spark_bucketing.select_list(aligned, partition_by) ~ ' from ' ~ spark_bucketing.quote_relation(relation) ~ ')') }}
{%- endmacro %}
