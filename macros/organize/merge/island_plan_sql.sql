{#-
  SQL for a plan of the files of a merge, as that of interval_plan_sql(), by island: most islands become one file, which needs no more than what
  the data map says of their rows; only rows of the others are looked at.

  layout: with island_columns() among its `split_by`
  opened: how many files and intervals are of islands that may become several files
-#}
{% macro island_plan_sql(merge, layout, rows_per_file, opened) -%}
  {%- set touched = spark_bucketing.quote_relation(merge.of.touched) -%}
  {%- set groups = spark_bucketing.group_names(merge.layout) | join(', ') -%}
  {%- set names = spark_bucketing.group_names(layout) -%}
  {%- set type = spark_bucketing.quoted_type(spark_bucketing.columns_named(merge.columns, layout.organized_by)[0].type) %}
  select distinct
    {{ groups ~ ', ' if groups }}island as {{ names[-2] }}, is_alone as {{ names[-1] }}, island_rows as rows, cast(null as array<{{ type }}>) as bounds, 1 as files
  from {{ touched }}
  where not is_open and island_rows > 0
  {%- if opened %}
  {%- set some = '(select * from ' ~ touched ~ ' where is_open)' %}
  union all (
    {{ spark_bucketing.interval_plan_sql('(' ~ spark_bucketing.rewritten_rows_sql(merge, spark_bucketing.names_of_files(some, merge.of.files), some) ~ ')', layout, rows_per_file) }}
  )
  {%- endif %}
{%- endmacro %}


{#- What rows that are written together in a merge have the same values of, besides partition and split. -#}
{% macro island_columns() -%}
  {{ return(['__spark_bucketing_island', '__spark_bucketing_alone']) }}
{%- endmacro %}


{#- SQL for the files of an island: one that has grown is left as one up to twice its size; of several that are written together none is to become that large. -#}
{% macro files_of_island(rows, is_alone, rows_per_file) -%}
  {{ return('case when not ' ~ is_alone ~ ' then cast(round(' ~ rows ~ ' / ' ~ rows_per_file ~ ') as bigint) when ' ~ rows ~ ' <= ' ~ 2 * rows_per_file
      ~ ' then 1 else (' ~ rows ~ ' + ' ~ (rows_per_file - 1) ~ ') div ' ~ rows_per_file ~ ' end') }}
{%- endmacro %}
