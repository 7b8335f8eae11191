{#-
  Writes the rows of this run to a plain table with the columns and types of the model's, and returns it. They are needed
  more than once (which partitions do they touch? which keys?), and a query run twice may give two answers.
-#}
{% macro load_input(relation, source, columns, layout) -%}
  {%- set input = spark_bucketing.sibling(relation, 'input') -%}
  {% do spark_bucketing.drop_relation_with_files(input) %}
  {%- set create = 'create table ' ~ spark_bucketing.quote_relation(input) ~ ' (' ~ spark_bucketing.column_definitions(columns, []) ~ ') using parquet' -%}
  {% do spark_bucketing.execute_sql(spark_bucketing.in_free_location(input, create)) %}
  {%- set select = 'select ' ~ spark_bucketing.select_list(columns, layout.partition_by) ~ ' from ' ~ source -%}
  {% do spark_bucketing.execute_sql('insert into ' ~ spark_bucketing.quote_relation(input) ~ ' ' ~ select) %}
  {{ return(input) }}
{%- endmacro %}
