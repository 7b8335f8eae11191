{#-
  Statements that delete a directory. SQL has none for it, but dropping a managed table deletes its files, wherever its
  location points. The second table is for the empty directory that the first one was created in.

  and_first: statements that are to run when the directory has its second owner, before it is deleted
-#}
{% macro delete_directory(location, and_first=[]) -%}
  {%- set trash = spark_bucketing.quote_relation(spark_bucketing.intermediate_relation(this, 'trash')) -%}
  {%- set create = 'create table ' ~ trash ~ ' (nothing string) stored as textfile' -%}
  {%- set move = 'alter table ' ~ trash ~ ' set location ' ~ spark_bucketing.string_literal(location) -%}
  {%- set drop = 'drop table ' ~ trash -%}
  {{ return([create, move] + and_first + [drop, create, drop]) }}
{%- endmacro %}
