{#-
  Returns the number of tasks that write a table, which is the number of buckets. For a partitioned table, it is spark.sql.shuffle.partitions if that
  number is larger, because more tasks can write several partitions in parallel. The config key `write_tasks` overrides both numbers.
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
