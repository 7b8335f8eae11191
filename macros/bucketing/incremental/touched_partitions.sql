{#-
  Partitions whose content changes: those of the new rows and, for a merge, those of the rows that they match, which may
  lie in other partitions unless the partition columns are part of the key.
-#}
{% macro touched_partitions(relation, input, layout, increment) -%}
  {%- set names = spark_bucketing.quote_columns(layout.partition_by) -%}
  {%- set source = 'select ' ~ names ~ ' from ' ~ spark_bucketing.quote_relation(input) -%}
  {%- set keys = increment.unique_key | map('lower') | list -%}
  {%- set outside = layout.partition_by | map('lower') | reject('in', keys) | list -%}
  {%- if increment.strategy == 'merge' and outside -%}
    {%- set source = source
        ~ ' union all select ' ~ names ~ ' from ' ~ spark_bucketing.quote_relation(relation) ~ ' as DBT_INTERNAL_DEST where exists (select 1 from '
        ~ spark_bucketing.quote_relation(input) ~ ' as DBT_INTERNAL_SOURCE where ' ~ spark_bucketing.merge_condition(increment) ~ ')' -%}
  {%- endif -%}
  {{ return(spark_bucketing.partition_values(layout.partition_by, '(' ~ source ~ ')')) }}
{%- endmacro %}
