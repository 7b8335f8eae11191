{#-
  Returns the partitions whose rows a merge changes: partitions of the new rows and of the rows that they match.

  Only if the key lacks a partition column, matched rows can be in other partitions than the new rows.

  rows: string, SQL from aligned_rows()
-#}
{% macro touched_partitions(rows, input, layout, increment) -%}
  {%- set names = spark_bucketing.quote_columns(layout.partition_by) -%}
  {%- set moves = layout.partition_by | map('lower') | reject('in', increment.unique_key | map('lower') | list) | list | length > 0 -%}
  {%- set source = 'select ' ~ names ~ ' from ' ~ input -%}
  {%- if moves -%}
    {%- set source = source ~ ' union all select ' ~ names ~ ' from ' ~ rows ~ ' as DBT_INTERNAL_DEST where exists (select 1 from '
        ~ input ~ ' as DBT_INTERNAL_SOURCE where ' ~ spark_bucketing.merge_condition(increment) ~ ')' -%}
  {%- endif -%}
  {{ return(spark_bucketing.partition_values(layout.partition_by, '(' ~ source ~ ')')) }}
{%- endmacro %}
