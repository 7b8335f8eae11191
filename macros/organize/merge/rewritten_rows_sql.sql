{#-
  Returns SQL for the rows of the new files: rows of the touched files that are neither replaced nor deleted, and the new rows. The result has
  the table's columns, the compaction bin, and a value that determines whether a row is sampled.

  names: dict, file_name_list() of the files to read
  of: string, SQL for some of the touched files; none for all
-#}
{% macro rewritten_rows_sql(merge, names, of=none) -%}
  {%- set touched = of or spark_bucketing.quote_relation(merge.of.touched) -%}
  {%- set columns = merge.columns | map(attribute='name') | list -%}
  {%- set groups = spark_bucketing.partition_aliases(merge.layout) -%}
  {%- set bin = spark_bucketing.quote_columns(spark_bucketing.bin_columns()) -%}
  {#- Includes the range column, because many rows may have NULL keys. -#}
  {%- set place = merge.unique_key + merge.layout.range_by | reject('in', merge.unique_key) | list %}
  select {{ spark_bucketing.quote_columns(columns) }}, {{ bin }}, struct({{ spark_bucketing.quote_columns(place) }}) as `__spark_bucketing_place`
  from {{ spark_bucketing.rows_of_touched_files(merge, names, touched) }} as DBT_INTERNAL_DEST
  left anti join {{ spark_bucketing.quote_relation(merge.of.input) }} as DBT_INTERNAL_SOURCE
    on {{ spark_bucketing.merge_condition(merge) }}
  union all
  select {{ spark_bucketing.quote_columns(columns, 'routed.%s') }}, touched.bin, touched.is_alone, struct({{ spark_bucketing.quote_columns(place, 'routed.%s') }})
  from {{ spark_bucketing.quote_relation(merge.of.tmp) }} as routed
  inner join (
    select distinct {{ groups | join(', ') ~ ', ' if groups }}range_number, bin, is_alone from {{ touched }}
  ) as touched
    on {{ spark_bucketing.partition_condition('routed', 'touched', merge.layout) }} and routed.`__spark_bucketing_range` = touched.range_number
{%- endmacro %}


{#- Returns SQL in parentheses for all rows of the touched files, with their file and compaction bin. -#}
{% macro rows_of_touched_files(merge, names, touched) -%}
  {%- set columns = merge.columns | map(attribute='name') | list -%}
  {%- set sql -%}
  (
    select rows.*, touched.bin as {{ spark_bucketing.quote_columns(spark_bucketing.bin_columns()).replace(', ', ', touched.is_alone as ') }}
    from (
      select {{ spark_bucketing.quote_columns(columns) }}, _metadata.file_path as `__spark_bucketing_file`
      from {{ spark_bucketing.quote_relation(merge.of.table) }}
      where {{ spark_bucketing.file_name_condition(names) }}
    ) as rows
    inner join {{ touched }} as touched
      on rows.`__spark_bucketing_file` = touched.file
  )
  {%- endset -%}
  {{ return(sql) }}
{%- endmacro %}
