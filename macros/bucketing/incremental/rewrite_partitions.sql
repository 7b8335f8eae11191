{#-
  Replaces the touched partitions of a table by new content, by way of a staged table that survives a crash.

    1. the content of the touched partitions is built, bucketed and verified beside the table
    2. one rename declares it finished: from here on, a run that dies is completed by the next one
    3. replace_touched_partitions() writes it over the table's partitions

  content: query in parentheses for all rows that the touched partitions are to have
  touched: from partition_values(); those without rows in the content are dropped
-#}
{% macro rewrite_partitions(relation, content, columns, layout, touched) -%}
  {%- set tmp = spark_bucketing.sibling(relation, 'tmp') -%}
  {%- set staged = spark_bucketing.sibling(relation, 'staged') -%}
  {%- set staging_layout = dict(layout, location_root=none) -%}
  {% do spark_bucketing.create_bucketed_table(tmp, columns, staging_layout) %}
  {% do spark_bucketing.insert_bucketed(tmp, content, columns, staging_layout) %}
  {% do spark_bucketing.verify_buckets(tmp, layout) %}
  {%- set filled = spark_bucketing.partition_values(layout.partition_by, spark_bucketing.quote_relation(tmp)) -%}
  {%- set emptied = [] -%}
  {%- for values in touched if values not in filled -%}
    {%- do emptied.append(values) -%}
  {%- endfor -%}
  {% do spark_bucketing.remember_emptied(relation, columns, layout, emptied) %}
  {% do spark_bucketing.swap_relations(tmp, staged, none) %}
  {% do spark_bucketing.replace_touched_partitions(relation) %}
{%- endmacro %}
