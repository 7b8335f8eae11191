{#-
  Writes the rows of this run to a plain table with the columns and types of the model's, and returns it. They are needed
  more than once (which partitions do they touch? which keys?), and a query run twice may give two answers.

  sorted_by: columns that each of its files is sorted by
-#}
{% macro load_input(relation, source, columns, layout, sorted_by=[]) -%}
  {%- set input = spark_bucketing.intermediate_relation(relation, 'input') -%}
  {% do spark_bucketing.drop_relation_with_files(input) %}
  {%- set select = 'select ' ~ spark_bucketing.select_list(columns, layout.partition_by) ~ ' from ' ~ source
      ~ (' sort by ' ~ spark_bucketing.quote_columns(sorted_by) if sorted_by else '') -%}
  {%- set create = 'create table ' ~ spark_bucketing.quote_relation(input) -%}
  {%- if not spark_bucketing.converted_columns(columns) -%}
    {% do spark_bucketing.execute_sql(create ~ ' using parquet as ' ~ select) %}
  {%- else -%}
    {#- An INSERT converts as an INSERT into the table would, or refuses to. -#}
    {% do spark_bucketing.execute_sql(create ~ ' (' ~ spark_bucketing.column_definitions(columns, []) ~ ') using parquet') %}
    {% do spark_bucketing.execute_sql('insert into ' ~ spark_bucketing.quote_relation(input) ~ ' ' ~ select) %}
  {%- endif -%}
  {{ return(input) }}
{%- endmacro %}


{#- Those of reconciled columns that the query does not return, or of another type than the table is to have. -#}
{% macro converted_columns(columns) -%}
  {%- set converted = [] -%}
  {%- for column in columns if not column.from or column.from.type != column.type or column.from.with_void -%}
    {%- do converted.append(column) -%}
  {%- endfor -%}
  {{ return(converted) }}
{%- endmacro %}
