{#-
  Replaces the touched partitions of a table by new content, by way of a staged table that survives a crash.

    1. the content of the touched partitions is built, bucketed and verified beside the table
    2. one rename declares it finished: from here on, a run that dies is completed by the next one
    3. replace_touched_partitions() writes it over the table's partitions

  content: query in parentheses for all rows that the touched partitions are to have
  touched: from partition_values(); those without rows in the content are dropped
  existing: table_layout() of the table; the staged rows are for this very build of it
-#}
{% macro rewrite_partitions(relation, content, columns, layout, touched, existing) -%}
  {%- set tmp = spark_bucketing.sibling(relation, 'tmp') -%}
  {%- set staged = spark_bucketing.sibling(relation, 'staged') -%}
  {%- set target = {'bucketing.replaces': existing.build} if existing.build else {} -%}
  {%- set staging_layout = dict(layout, location_root=none, tblproperties=dict(layout.tblproperties, **target)) -%}
  {% do spark_bucketing.create_bucketed_table(tmp, columns, staging_layout) %}
  {% do spark_bucketing.insert_bucketed(tmp, content, columns, staging_layout) %}
  {% do spark_bucketing.verify_buckets(tmp, layout) %}
  {%- set filled = spark_bucketing.partition_values(layout.partition_by, spark_bucketing.quote_relation(tmp)) -%}
  {%- set emptied = [] -%}
  {%- for values in touched if values not in filled -%}
    {%- do emptied.append(values) -%}
  {%- endfor -%}
  {% do spark_bucketing.remember_emptied(relation, columns, layout, emptied) %}
  {%- set declare = 'alter table ' ~ spark_bucketing.quote_relation(tmp) ~ ' rename to ' ~ spark_bucketing.quote_relation(staged) -%}
  {% do spark_bucketing.execute_sql(spark_bucketing.in_free_location(staged, declare)) %}
  {% do spark_bucketing.replace_touched_partitions(relation) %}
{%- endmacro %}
