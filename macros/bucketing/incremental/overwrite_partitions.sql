{#-
  Replaces the partitions that the source has rows for. Spark moves the finished files in only when all are written.

  The source must not read the table itself: in one statement with the INSERT, Spark would take the relation without
  buckets that the reading leaves in its cache, and write files without buckets.
-#}
{% macro overwrite_partitions(relation, source, columns, layout) -%}
  {#- Of what is not sealed afterwards, the newer files are those of this statement: few clocks differ by more than it takes. -#}
  {%- set before = {'since': (modules.datetime.datetime.now().timestamp() * 1000000) | int, 'writes': []} if layout.bucket_hash == 'hive' and spark_bucketing.extension_enabled()
      else spark_bucketing.before_write(spark_bucketing.table_layout(relation).location) -%}
  {% do spark_bucketing.insert_bucketed(relation, source, columns, layout, overwrite=true) %}
  {% do spark_bucketing.verify_buckets(relation, layout, before) %}
{%- endmacro %}
