{#-
  Replaces the table's partitions for which the source has rows. Spark moves the files into place only after it has written all of them.

  On stock Spark, the source must not read the table itself. Such a scan caches a relation without buckets, and the INSERT would then write files
  without buckets.

  replace_only: string, SQL condition that the replaced rows must meet, or none. Only the session extension checks it.
-#}
{% macro overwrite_partitions(relation, source, columns, layout, replace_only=none) -%}
  {#- The session extension itself writes one file per bucket, and replaces all old files of the partitions. -#}
  {%- set is_verified = spark_bucketing.overwrites_files(layout) and spark_bucketing.distributes_writes(layout) -%}
  {%- set before = spark_bucketing.before_write(spark_bucketing.table_layout(relation).location) if not is_verified -%}
  {% do spark_bucketing.insert_rows(relation, source, columns, layout, overwrite='dynamic', replace_only=replace_only) %}
  {%- if not is_verified -%}
    {% do spark_bucketing.verify_buckets(relation, layout, before) %}
  {%- endif -%}
{%- endmacro %}


{#-
  Returns whether INSERT OVERWRITE replaces files, so that its query may read the table. If so, an INSERT into an organized table also writes the
  configured files.
-#}
{% macro overwrites_files(layout) -%}
  {%- set setting = spark_bucketing.session_settings().get('spark.bucketing.write.atomic') -%}
  {{ return(spark_bucketing.extension_enabled() and not spark_bucketing.has_other_strategy(layout) and (setting is none or setting[1] | lower == 'true')) }}
{%- endmacro %}
