{#-
  Alters a table without rewriting its files: adds columns, then sets the bucket spec, which may use a new column.

  The bucket spec applies to future writes. Existing partitions keep the spec in their seals.

  change: string, from layout_changes()
-#}
{% macro alter_relation(relation, added, change, layout, existing) -%}
  {%- set alter = 'alter table ' ~ spark_bucketing.quote_relation(relation) -%}
  {%- if added -%}
    {% do spark_bucketing.execute_sql(alter ~ ' add columns (' ~ spark_bucketing.column_definitions(added, []) ~ ')') %}
  {%- endif -%}
  {%- if change == 'evolve' -%}
    {% do log('Changing the bucket spec of ' ~ relation ~ ' to ' ~ spark_bucketing.describe_layout(layout) ~ '; before: '
        ~ spark_bucketing.describe_layout(existing) ~ '. Partitions that this run does not write keep their bucket spec.', info=true) %}
    {% do spark_bucketing.execute_sql(alter ~ ' ' ~ spark_bucketing.bucket_clause(layout)) %}
  {%- endif -%}
{%- endmacro %}
