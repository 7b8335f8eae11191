{#-
  Returns SQL for the number of the task that writes a row, from 0 to tasks - 1. All rows of a bucket in a partition go to the same task, and
  therefore to the same file. If there are enough tasks, each bucket of a partition goes to a different task. The buckets of different partitions
  start at different tasks, which balances the load.
-#}
{% macro task_of_row(bucket, partition_by, tasks) -%}
  {%- if partition_by -%}
    {{ return('pmod(pmod(hash(' ~ spark_bucketing.quote_columns(partition_by) ~ '), ' ~ tasks ~ ') + ' ~ bucket ~ ', ' ~ tasks ~ ')') }}
  {%- else -%}
    {{ return('pmod(' ~ bucket ~ ', ' ~ tasks ~ ')') }}
  {%- endif -%}
{%- endmacro %}
