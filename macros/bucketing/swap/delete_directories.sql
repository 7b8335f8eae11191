{#-
  Returns statements that delete directories. SQL has no statement for it, but DROP TABLE deletes the partitions of a managed table in any
  location.

  and_first: list of statements to run after the trash table owns the directories, and before they are deleted
-#}
{% macro delete_directories(locations, and_first=[]) -%}
  {%- set trash = spark_bucketing.quote_relation(spark_bucketing.intermediate_relation(this, 'trash')) -%}
  {%- set partitions = [] -%}
  {%- for location in locations -%}
    {%- do partitions.append('partition (number = ' ~ loop.index0 ~ ') location ' ~ spark_bucketing.string_literal(location)) -%}
  {%- endfor -%}
  {{ return(['create table ' ~ trash ~ ' (nothing string) partitioned by (number int) stored as textfile', 'alter table ' ~ trash ~ ' add ' ~ partitions | join(' ')]
      + and_first + ['drop table ' ~ trash]) }}
{%- endmacro %}
