{#-
  Writes the staged partitions over the table's and drops the emptied ones; may be repeated any number of times. Takes all
  it needs from the metastore, since the run that staged them may be over.
-#}
{% macro replace_touched_partitions(relation) -%}
  {%- set staged = spark_bucketing.sibling(relation, 'staged') -%}
  {%- set emptied = spark_bucketing.sibling(relation, 'emptied') -%}
  {%- set layout = dict(spark_bucketing.table_layout(staged), write_tasks=config.get('write_tasks')) -%}
  {%- set columns = spark_bucketing.table_columns(spark_bucketing.quote_relation(staged)) -%}
  {%- set drops = [] -%}
  {%- if emptied.identifier | lower in spark_bucketing.existing_names(emptied, [emptied.identifier]) -%}
    {%- for values in spark_bucketing.partition_values(layout.partition_by, spark_bucketing.quote_relation(emptied)) -%}
      {%- do drops.append('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' drop if exists '
          ~ spark_bucketing.partition_spec(layout.partition_by, values)) -%}
    {%- endfor -%}
  {%- endif -%}
  {%- set before = spark_bucketing.before_write(relation) -%}
  {% do spark_bucketing.insert_bucketed(relation, spark_bucketing.quote_relation(staged), columns, layout, overwrite=true, and_then=drops) %}
  {% do spark_bucketing.verify_buckets(relation, layout, before) %}
  {% do spark_bucketing.drop_relation_with_files(staged) %}
  {% do spark_bucketing.drop_relation_with_files(emptied) %}
{%- endmacro %}
