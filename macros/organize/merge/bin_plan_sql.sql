{#-
  Returns SQL for the file plan of a merge, like range_plan_sql() but per compaction bin. Most bins become one file, as the file
  statistics alone show. Reads only bins that may become several files.

  layout: dict, with bin_columns() in its `implicit_partition_by`
  opened: int, number of files and ranges in bins that may become several files
-#}
{% macro bin_plan_sql(merge, layout, rows_per_file, opened) -%}
  {%- set touched = spark_bucketing.quote_relation(merge.of.touched) -%}
  {%- set groups = spark_bucketing.partition_aliases(merge.layout) | join(', ') -%}
  {%- set names = spark_bucketing.partition_aliases(layout) -%}
  {%- set type = spark_bucketing.quoted_type(spark_bucketing.columns_named(merge.columns, layout.range_by)[0].type) %}
  select distinct
    {{ groups ~ ', ' if groups }}bin as {{ names[-2] }}, is_alone as {{ names[-1] }}, bin_rows as rows, cast(null as array<{{ type }}>) as boundaries, 1 as files
  from {{ touched }}
  where not is_open and bin_rows > 0
  {%- if opened %}
  {%- set some = '(select * from ' ~ touched ~ ' where is_open)' %}
  union all (
    {{ spark_bucketing.range_plan_sql('(' ~ spark_bucketing.rewritten_rows_sql(merge, spark_bucketing.file_name_list(some, merge.of.files), some) ~ ')', layout, rows_per_file) }}
  )
  {%- endif %}
{%- endmacro %}


{#- Returns the columns that identify a compaction bin within a partition and implicit partition. -#}
{% macro bin_columns() -%}
  {{ return(['__spark_bucketing_bin', '__spark_bucketing_alone']) }}
{%- endmacro %}


{#-
  Returns SQL for the number of files of a bin. A bin with a single range remains one file up to twice the target; other bins are split at
  the target.
-#}
{% macro files_of_bin(rows, is_alone, rows_per_file) -%}
  {{ return('case when not ' ~ is_alone ~ ' then cast(round(' ~ rows ~ ' / ' ~ rows_per_file ~ ') as bigint) when ' ~ rows ~ ' <= ' ~ 2 * rows_per_file
      ~ ' then 1 else (' ~ rows ~ ' + ' ~ (rows_per_file - 1) ~ ') div ' ~ rows_per_file ~ ' end') }}
{%- endmacro %}
