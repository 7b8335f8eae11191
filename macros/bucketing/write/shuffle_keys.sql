{#-
  Returns a query that computes an array of shuffle keys. REPARTITION(tasks, key) sends a row with the key at index t to task t.

  Spark hashes the key again, so the keys 0 to n - 1 would reach only about 63% of n tasks. The query tries forty times as many keys, which almost
  certainly reach every task. If no key reaches a task, two buckets share a task, but each bucket still gets its own file.
-#}
{% macro shuffle_keys(tasks) -%}
  select transform(array_sort(collect_list(struct(task, key))), x -> x.key)
  from (
    select pmod(hash(key), {{ tasks }}) as task, min(key) as key
    from (select cast(id as int) as key from range(0, {{ 40 * tasks }}, 1, 1))
    group by pmod(hash(key), {{ tasks }})
  )
{%- endmacro %}
