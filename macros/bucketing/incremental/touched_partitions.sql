{#-
  Partitions whose content changes: those of the new rows and, for a merge, those of the rows that they match, which may lie in other
  partitions unless the partition columns are part of the key. {partitions, found, lose}: also whether a key has several new rows, and whether
  a partition may lose all of its rows to others.

  rows: from aligned_rows()
-#}
{% macro touched_partitions(rows, input, layout, increment) -%}
  {%- set names = spark_bucketing.quote_columns(layout.partition_by) -%}
  {%- set input = spark_bucketing.quote_relation(input) -%}
  {%- set merge = increment.strategy == 'merge' -%}
  {%- set lose = merge and layout.partition_by | map('lower') | reject('in', increment.unique_key | map('lower') | list) | list | length > 0 -%}
  {%- set source = 'select ' ~ names ~ ' from ' ~ input -%}
  {%- if lose -%}
    {%- set source = source ~ ' union all select ' ~ names ~ ' from ' ~ rows ~ ' as DBT_INTERNAL_DEST where exists (select 1 from '
        ~ input ~ ' as DBT_INTERNAL_SOURCE where ' ~ spark_bucketing.merge_condition(increment) ~ ')' -%}
  {%- endif -%}
  {%- set repeated = spark_bucketing.repeated_keys_sql(input, increment) if merge else none -%}
  {{ return(dict(spark_bucketing.partition_values(layout.partition_by, '(' ~ source ~ ')', finds=repeated), lose=lose)) }}
{%- endmacro %}
