{#-
  Query, in parentheses, for a table's rows with the columns that it is to have: new ones NULL, retyped ones converted.

  columns: list of {name, type} that the table is to have
  existing_columns: what it has
  partition_by: columns by which it is to be partitioned, unless it is
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
      {#- Outside ANSI mode a cast makes NULL of what it can't convert. -#}
      {%- set error = spark_bucketing.string_literal('column ' ~ column.name ~ ' has a value that is no ' ~ column.type ~ ': ') -%}
      {%- set value = 'if(' ~ name ~ ' is null, null, coalesce(try_cast(' ~ name ~ ' as ' ~ type ~ '), raise_error('
          ~ error ~ ' || cast(' ~ name ~ ' as string))))' -%}
    {%- else -%}
      {%- set value = name -%}
    {%- endif -%}
    {%- do aligned.append({'name': column.name, 'type': column.type, 'expression': value}) -%}
  {%- endfor -%}
  {{ return('(select ' ~ spark_bucketing.select_list(aligned, partition_by) ~ ' from ' ~ spark_bucketing.quote_relation(relation) ~ ')') }}
{%- endmacro %}
