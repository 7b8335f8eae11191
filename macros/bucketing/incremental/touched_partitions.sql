{#-
  Partitions whose content changes: those of the new rows and, for a merge, those of the rows that they match, which may lie in other
  partitions unless the partition columns are part of the key. From partition_values(), with whether a key has several new rows.

  rows: from aligned_rows()
-#}
{% macro touched_partitions(rows, input, layout, increment) -%}
  {%- set names = spark_bucketing.quote_columns(layout.partition_by) -%}
  {%- set input = spark_bucketing.quote_relation(input) -%}
  {%- set source = 'select ' ~ names ~ ' from ' ~ input -%}
  {%- if increment.strategy != 'merge' -%}
    {{ return(spark_bucketing.partition_values(layout.partition_by, '(' ~ source ~ ')')) }}
  {%- elif layout.partition_by | map('lower') | reject('in', increment.unique_key | map('lower') | list) | list -%}
    {%- set source = source ~ ' union all select ' ~ names ~ ' from ' ~ rows ~ ' as DBT_INTERNAL_DEST where exists (select 1 from '
        ~ input ~ ' as DBT_INTERNAL_SOURCE where ' ~ spark_bucketing.merge_condition(increment) ~ ')' -%}
  {%- endif -%}
  {{ return(spark_bucketing.partition_values(layout.partition_by, '(' ~ source ~ ')', finds=spark_bucketing.repeated_keys_sql(input, increment))) }}
{%- endmacro %}
