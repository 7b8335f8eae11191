{#-
  Returns statements that delete a directory. SQL has no statement for it, but DROP TABLE deletes the files of a managed table in any
  location. The macro then creates and drops the table again, which removes its empty default directory.

  and_first: list of statements to run after the trash table owns the directory, and before it is deleted
-#}
{% macro delete_directory(location, and_first=[]) -%}
  {%- set trash = spark_bucketing.quote_relation(spark_bucketing.intermediate_relation(this, 'trash')) -%}
  {%- set create = 'create table ' ~ trash ~ ' (nothing string) stored as textfile' -%}
  {%- set move = 'alter table ' ~ trash ~ ' set location ' ~ spark_bucketing.string_literal(location) -%}
  {%- set drop = 'drop table ' ~ trash -%}
  {{ return([create, move] + and_first + [drop, create, drop]) }}
{%- endmacro %}
