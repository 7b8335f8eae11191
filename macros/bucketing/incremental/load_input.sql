{#-
  Writes the rows of this run to an intermediate table with the columns and types of the model, and returns it. The rows are read several
  times, and a query that runs twice may return different rows.

  sorted_by: list of names, sort columns of each file
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
    {#- Converts, or rejects, values by the same store assignment rules as an INSERT into the model's table. -#}
    {% do spark_bucketing.execute_sql(create ~ ' (' ~ spark_bucketing.column_definitions(columns, []) ~ ') using parquet') %}
    {% do spark_bucketing.execute_sql('insert into ' ~ spark_bucketing.quote_relation(input) ~ ' ' ~ select) %}
  {%- endif -%}
  {{ return(input) }}
{%- endmacro %}


{#- Returns the reconciled columns that the query does not return, or returns with another type. -#}
{% macro converted_columns(columns) -%}
  {%- set converted = [] -%}
  {%- for column in columns if not column.from or column.from.type != column.type or column.from.with_void -%}
    {%- do converted.append(column) -%}
  {%- endfor -%}
  {{ return(converted) }}
{%- endmacro %}
