{#-
  Replaces the partitions that the source has rows for. Spark moves the finished files in only when all are written.

  The source must not read the table itself: in one statement with the INSERT, Spark would take the relation without
  buckets that the reading leaves in its cache, and write files without buckets.
-#}
{% macro overwrite_partitions(relation, source, columns, layout) -%}
  {#- Where everything is sealed before, whatever is not sealed afterwards was written by this statement. -#}
  {%- set sealed = spark_bucketing.leaves_seals() and run_query(spark_bucketing.unsealed_sql(relation) ~ ' limit 1').rows | length == 0 -%}
  {%- set before = none if sealed else spark_bucketing.before_write(spark_bucketing.table_layout(relation).location) -%}
  {% do spark_bucketing.insert_bucketed(relation, source, columns, layout, overwrite=true) %}
  {% do spark_bucketing.verify_buckets(relation, layout, before) %}
{%- endmacro %}
