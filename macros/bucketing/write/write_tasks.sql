{#-
  Returns the number of tasks that write a table. An unpartitioned table gets one task for each bucket. A partitioned table gets
  spark.sql.shuffle.partitions if that is more, because several partitions can be written in parallel. `write_tasks` overrides both.
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
