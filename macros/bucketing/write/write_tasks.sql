{#-
  How many tasks write a table. Unpartitioned: one for each bucket, never more, and fewer only when write_tasks says so.
  Partitioned: as many as the session shuffles with when that is more, for several partitions can be written side by side.
-#}
{% macro write_tasks(layout) -%}
  {%- if layout.write_tasks -%}
    {{ return(layout.write_tasks) }}
  {%- elif layout.partition_by -%}
    {%- set row = spark_bucketing.session_settings().get('spark.sql.shuffle.partitions') -%}
    {%- set shuffle_partitions = row[1] | int if row else 200 -%}
    {{ return([layout.buckets, shuffle_partitions] | max) }}
  {%- else -%}
    {{ return(layout.buckets) }}
  {%- endif -%}
{%- endmacro %}
