{#-
  SQL for the task, 0 to tasks - 1, that writes a row. All rows of a bucket of a partition have the same task, hence one
  file; the buckets of a partition have tasks of their own as long as there are enough; each partition starts at
  another task, so that partitions do not queue up on the first ones.
-#}
{% macro task_of_row(bucket, partition_by, tasks) -%}
  {%- if partition_by -%}
    {{ return('pmod(pmod(hash(' ~ spark_bucketing.quote_columns(partition_by) ~ '), ' ~ tasks ~ ') + ' ~ bucket ~ ', ' ~ tasks ~ ')') }}
  {%- else -%}
    {{ return('pmod(' ~ bucket ~ ', ' ~ tasks ~ ')') }}
  {%- endif -%}
{%- endmacro %}
