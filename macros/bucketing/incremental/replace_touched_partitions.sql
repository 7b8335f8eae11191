{#-
  Writes the complete staging table over the table's partitions; may be repeated any number of times. Takes what it needs to know of the
  table from the metastore, since what staged the rows may be over, and may have been `spark-bucketing evolution rewrite`.

  filled, emptied: partitions with rows in the staging table, and those that are to be dropped
  spent: what is not needed any more when the table has been verified, the staging table first
-#}
{% macro replace_touched_partitions(relation, filled, emptied, spent) -%}
  {%- set layout = dict(spark_bucketing.table_layout(relation), write_tasks=config.get('write_tasks')) -%}
  {%- set columns = spark_bucketing.table_columns(spark_bucketing.quote_relation(relation)) -%}
  {%- set source = spark_bucketing.quote_relation(spark_bucketing.sibling(relation, 'staged')) -%}
  {%- set before = none if spark_bucketing.leaves_seals() else spark_bucketing.before_write(layout.location) -%}
  {%- set drop = 'alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' drop if exists '
      ~ spark_bucketing.partition_specs(layout.partition_by, emptied) | join(', ') -%}
  {% do spark_bucketing.insert_bucketed(relation, source, columns, layout, overwrite=true, and_then=drop if emptied) %}
  {%- if before or not spark_bucketing.drop_tables(spent, if_sealed=relation) -%}
    {% do spark_bucketing.verify_buckets(relation, layout, before, filled) %}
    {% do spark_bucketing.drop_tables(spent) %}
  {%- endif -%}
{%- endmacro %}
