{#-
  Replaces the table's partitions for which the source has rows. Spark moves the files into place only after it has written all of them.

  The source must not read the table itself. Such a scan caches a relation without buckets, and the INSERT would then write files
  without buckets.
-#}
{% macro overwrite_partitions(relation, source, columns, layout) -%}
  {%- set before = spark_bucketing.before_write(spark_bucketing.table_layout(relation).location) -%}
  {% do spark_bucketing.insert_bucketed(relation, source, columns, layout, overwrite=true) %}
  {% do spark_bucketing.verify_buckets(relation, layout, before) %}
{%- endmacro %}
