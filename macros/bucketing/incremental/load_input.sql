{#-
  Writes the rows of this run to an intermediate table with the columns and types of the model, and returns it. The rows are read several
  times, and a query that runs twice may return different rows.
-#}
{% macro load_input(relation, source, columns, layout) -%}
  {%- set input = spark_bucketing.intermediate_relation(relation, 'input') -%}
  {%- set select = 'select ' ~ spark_bucketing.select_list(columns, layout.partition_by) ~ ' from ' ~ source -%}
  {%- set create = 'create table ' ~ spark_bucketing.quote_relation(input) -%}
  {%- set storage = ' using parquet' if layout.clustered_by
      else ' using ' ~ layout.file_format ~ ' options ' ~ spark_bucketing.property_list(dict(layout.options, maxRecordsPerFile='0')) -%}
  {%- if not spark_bucketing.converted_columns(columns) -%}
    {% do spark_bucketing.execute_sql(create ~ storage ~ ' as ' ~ select) %}
  {%- else -%}
    {#- Converts, or rejects, values by the same store assignment rules as an INSERT into the model's table. -#}
    {% do spark_bucketing.execute_sql(create ~ ' (' ~ spark_bucketing.column_definitions(columns, []) ~ ')' ~ storage) %}
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
