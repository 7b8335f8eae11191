{#-
  Partitions whose content changes, as {partitions, lose}: those of the new rows and, for a merge, those of the rows that they match, which may
  lie in other partitions unless the partition columns are part of the key; then a partition may lose all of its rows to others.

  rows: from aligned_rows()
-#}
{% macro touched_partitions(rows, input, layout, increment) -%}
  {%- set names = spark_bucketing.quote_columns(layout.partition_by) -%}
  {%- set lose = increment.strategy == 'merge'
      and layout.partition_by | map('lower') | reject('in', increment.unique_key | map('lower') | list) | list | length > 0 -%}
  {%- set source = 'select ' ~ names ~ ' from ' ~ input -%}
  {%- if lose -%}
    {%- set source = source ~ ' union all select ' ~ names ~ ' from ' ~ rows ~ ' as DBT_INTERNAL_DEST where exists (select 1 from '
        ~ input ~ ' as DBT_INTERNAL_SOURCE where ' ~ spark_bucketing.merge_condition(increment) ~ ')' -%}
  {%- endif -%}
  {{ return({'partitions': spark_bucketing.partition_values(layout.partition_by, '(' ~ source ~ ')'), 'lose': lose}) }}
{%- endmacro %}
