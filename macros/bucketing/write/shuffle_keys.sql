{#-
  SQL query for an array: at index t an int that REPARTITION(tasks, key) sends to task t.

  Spark hashes the key once more, so that keys 0 to n - 1 would fall on about 63% of n tasks. Of forty times as many some fall on
  each. Should a task have none all the same, two buckets have one task, and each its file still.
-#}
{% macro shuffle_keys(tasks) -%}
  select transform(array_sort(collect_list(struct(task, key))), x -> x.key)
  from (
    select pmod(hash(key), {{ tasks }}) as task, min(key) as key
    from (select cast(id as int) as key from range(0, {{ 40 * tasks }}, 1, 1))
    group by pmod(hash(key), {{ tasks }})
  )
{%- endmacro %}
