{#-
  Writes the complete staging table over the table's partitions and drops it; may be repeated any number of times. Takes all
  it needs from the metastore, since what staged the rows may be over, and may have been `spark-bucketing evolution rewrite`.
-#}
{% macro replace_touched_partitions(relation) -%}
  {%- set staged = spark_bucketing.sibling(relation, 'staged') -%}
  {%- set source = spark_bucketing.quote_relation(staged) -%}
  {%- set layout = dict(spark_bucketing.table_layout(relation), write_tasks=config.get('write_tasks')) -%}
  {%- set columns = spark_bucketing.table_columns(spark_bucketing.quote_relation(relation)) -%}
  {%- set drops = [] -%}
  {%- if spark_bucketing.table_layout(staged).empties -%}
    {%- set filled = spark_bucketing.partition_values(layout.partition_by, source) -%}
    {%- for values in spark_bucketing.stored_partitions(staged) if values not in filled -%}
      {%- do drops.append('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' drop if exists '
          ~ spark_bucketing.partition_spec(layout.partition_by, values)) -%}
    {%- endfor -%}
  {%- endif -%}
  {%- set before = spark_bucketing.before_write(layout.location) -%}
  {% do spark_bucketing.insert_bucketed(relation, source, columns, layout, overwrite=true, and_then=drops) %}
  {% do spark_bucketing.verify_buckets(relation, layout, before) %}
  {% do spark_bucketing.drop_relation_with_files(staged) %}
{%- endmacro %}
