{#-
  Alters a table without rewriting its files: adds columns, then sets the bucket spec, which may use a new column. An unbucketed
  table first gets the bucketing version of the config.

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
    {%- set version = spark_bucketing.bucketing_versions()[layout.bucket_hash] -%}
    {%- if existing.bucketing_version != version -%}
      {% do spark_bucketing.execute_sql(alter ~ ' set tblproperties ' ~ spark_bucketing.property_list({'bucketing_version': version})) %}
    {%- endif -%}
    {% do spark_bucketing.execute_sql(alter ~ ' ' ~ spark_bucketing.bucket_clause(layout)) %}
  {%- endif -%}
{%- endmacro %}
