{#-
  Returns the partitions whose rows change, as {partitions, lose}: partitions of the new rows and, for a merge, of the rows that they match.

  Unless the key contains all partition columns, matched rows can move between partitions. `lose` is then true, because a partition may
  lose all of its rows.

  rows: string, SQL from aligned_rows()
-#}
{% macro touched_partitions(rows, input, layout, increment) -%}
  {%- set names = spark_bucketing.quote_columns(layout.partition_by) -%}
  {%- set lose = spark_bucketing.moves_rows(layout, increment) -%}
  {%- set source = 'select ' ~ names ~ ' from ' ~ input -%}
  {%- if lose -%}
    {%- set source = source ~ ' union all select ' ~ names ~ ' from ' ~ rows ~ ' as DBT_INTERNAL_DEST where exists (select 1 from '
        ~ input ~ ' as DBT_INTERNAL_SOURCE where ' ~ spark_bucketing.merge_condition(increment) ~ ')' -%}
  {%- endif -%}
  {{ return({'partitions': spark_bucketing.partition_values(layout.partition_by, '(' ~ source ~ ')'), 'lose': lose}) }}
{%- endmacro %}
