{#-
  Returns SQL for the task that writes a row, from 0 to tasks - 1. All rows in a bucket of a partition go to the same task, and therefore to one
  file. With enough tasks, each bucket of a partition goes to a different task. Each partition starts at a different task, which balances the load.
-#}
{% macro task_of_row(bucket, partition_by, tasks) -%}
  {%- if partition_by -%}
    {{ return('pmod(pmod(hash(' ~ spark_bucketing.quote_columns(partition_by) ~ '), ' ~ tasks ~ ') + ' ~ bucket ~ ', ' ~ tasks ~ ')') }}
  {%- else -%}
    {{ return('pmod(' ~ bucket ~ ', ' ~ tasks ~ ')') }}
  {%- endif -%}
{%- endmacro %}
