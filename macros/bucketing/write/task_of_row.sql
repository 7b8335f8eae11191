{#-
  Returns SQL for the task that writes a row, from 0 to tasks - 1. All rows of a bucket of a partition have the same task, and therefore one
  file. Buckets of a partition have different tasks if there are enough. Each partition starts at another task, which balances the tasks.
-#}
{% macro task_of_row(bucket, partition_by, tasks) -%}
  {%- if partition_by -%}
    {{ return('pmod(pmod(hash(' ~ spark_bucketing.quote_columns(partition_by) ~ '), ' ~ tasks ~ ') + ' ~ bucket ~ ', ' ~ tasks ~ ')') }}
  {%- else -%}
    {{ return('pmod(' ~ bucket ~ ', ' ~ tasks ~ ')') }}
  {%- endif -%}
{%- endmacro %}
