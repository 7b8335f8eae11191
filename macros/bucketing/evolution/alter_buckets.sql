{#-
  Gives the table the config's bucket spec, without touching a file. It is that of what is written next; the seal of each
  partition says what its files are.
-#}
{% macro alter_buckets(relation, layout, existing) -%}
  {% do log('Altering the buckets of ' ~ relation ~ ': ' ~ spark_bucketing.describe_layout(layout) ~ '; before: '
      ~ spark_bucketing.describe_layout(existing) ~ '. Partitions that are not written keep theirs.', info=true) %}
  {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' ' ~ spark_bucketing.bucket_clause(layout)) %}
{%- endmacro %}


{#- CLUSTERED BY and what belongs to it, as in CREATE TABLE. -#}
{% macro bucket_clause(layout) -%}
  {%- set sorted_by = 'sorted by (' ~ spark_bucketing.quote_columns(layout.sorted_by) ~ ') ' if layout.sorted_by else '' -%}
  {{ return('clustered by (' ~ spark_bucketing.quote_columns(layout.clustered_by) ~ ') ' ~ sorted_by ~ 'into ' ~ layout.buckets ~ ' buckets') }}
{%- endmacro %}
