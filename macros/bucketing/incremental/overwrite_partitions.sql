{#-
  Replaces the table's partitions for which the source has rows. Spark moves the files into place only after it has written all of them.

  On stock Spark, the source must not read the table itself. Such a scan caches a relation without buckets, and the INSERT would then write files
  without buckets.

  replace_only: string, SQL condition that the replaced rows must meet, or none. Only the session extension checks it.
-#}
{% macro overwrite_partitions(relation, source, columns, layout, replace_only=none) -%}
  {#- With seals, the time alone identifies this statement's files: unsealed files are rare, and an INSERT takes longer than most clock skews. -#}
  {%- set before = {'since': (modules.datetime.datetime.now().timestamp() * 1000000) | int, 'writes': []} if layout.bucket_hash != 'spark' and spark_bucketing.extension_enabled()
      else spark_bucketing.before_write(spark_bucketing.table_layout(relation).location) -%}
  {% do spark_bucketing.insert_rows(relation, source, columns, layout, overwrite='dynamic', replace_only=replace_only) %}
  {% do spark_bucketing.verify_buckets(relation, layout, before) %}
{%- endmacro %}


{#-
  Returns whether INSERT OVERWRITE replaces files, so that its query may read the table. If so, an INSERT into an organized table also writes the
  configured files.
-#}
{% macro overwrites_files(layout) -%}
  {%- set setting = spark_bucketing.session_settings().get('spark.bucketing.write.atomicoverwrite') -%}
  {{ return((spark_bucketing.replaces_files(layout) or spark_bucketing.plans_files(layout)) and (setting is none or setting[1] | lower == 'true')) }}
{%- endmacro %}
