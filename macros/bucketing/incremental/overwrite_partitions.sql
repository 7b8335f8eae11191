{#-
  Replaces the partitions that the source has rows for. Spark moves the finished files in only when all are written.
  Only new files are verified; the hour is for clocks that differ between driver and storage.
-#}
{% macro overwrite_partitions(relation, source, columns, layout) -%}
  {%- set started = run_query('select unix_micros(current_timestamp() - interval 1 hour)').rows[0][0] -%}
  {% do spark_bucketing.insert_bucketed(relation, source, columns, layout, overwrite=true) %}
  {% do spark_bucketing.verify_buckets(relation, layout, '_metadata.file_modification_time >= timestamp_micros(' ~ started | int ~ ')') %}
{%- endmacro %}
