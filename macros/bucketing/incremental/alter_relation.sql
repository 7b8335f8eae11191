{#-
  What changes in a table that keeps its files: columns first, since its new buckets may be by one of them. The bucket spec is that of
  what is written next; the seal of each partition says what its files are.

  change: from layout_changes()
-#}
{% macro alter_relation(relation, added, change, layout, existing) -%}
  {%- set alter = 'alter table ' ~ spark_bucketing.quote_relation(relation) -%}
  {%- if added -%}
    {% do spark_bucketing.execute_sql(alter ~ ' add columns (' ~ spark_bucketing.column_definitions(added, []) ~ ')') %}
  {%- endif -%}
  {%- if change == 'evolve' -%}
    {% do log('Altering the buckets of ' ~ relation ~ ': ' ~ spark_bucketing.describe_layout(layout) ~ '; before: '
        ~ spark_bucketing.describe_layout(existing) ~ '. Partitions that are not written keep theirs.', info=true) %}
    {% do spark_bucketing.execute_sql(alter ~ ' ' ~ spark_bucketing.bucket_clause(layout)) %}
  {%- endif -%}
{%- endmacro %}
