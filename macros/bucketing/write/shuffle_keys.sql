{#-
  SQL query for an array: at index t the int that REPARTITION(tasks, key) sends to task t.

  Spark hashes the key once more (Murmur3, seed 42), so that keys 0 to n - 1 would fall on about 63% of n tasks. Murmur3
  of one int is a bijection; this runs it backwards for the hash values 0 to tasks - 1, and pmod(t, tasks) = t.
  All arithmetic is on 32-bit values held in bigints; products are taken in two halves, to stay below 2^63.
  Source: Murmur3_x86_32.hashInt of Spark; constants are the multiplicative inverses modulo 2^32 of its own.
-#}
{% macro shuffle_keys(tasks) -%}
  {%- set mask = '4294967295' -%}
  select transform(array_sort(collect_list(struct(task, key))), x -> x.key)
  from (
    select
      task,
      {# fmix(h, 4) backwards -#}
      task ^ shiftright(task, 16) as f1,
      {{ spark_bucketing.multiply_32('f1', 2127672349) }} as f2,
      f2 ^ shiftright(f2, 13) ^ shiftright(f2, 26) as f3,
      {{ spark_bucketing.multiply_32('f3', 2781581891) }} as f4,
      f4 ^ shiftright(f4, 16) ^ 4 as h,
      {# mixH1(42, k) backwards -#}
      {{ spark_bucketing.multiply_32('((h + 430675100) & ' ~ mask ~ ')', 3435973837) }} as m1,
      (shiftright(m1, 13) | (shiftleft(m1, 19) & {{ mask }})) ^ 42 as k,
      {# mixK1(key) backwards -#}
      {{ spark_bucketing.multiply_32('k', 1458385051) }} as k1,
      shiftright(k1, 15) | (shiftleft(k1, 17) & {{ mask }}) as k2,
      {{ spark_bucketing.multiply_32('k2', 3739302833) }} as k3,
      cast(if(k3 > 2147483647, k3 - 4294967296, k3) as int) as key
    from (select id as task from range({{ tasks }}))
  )
{%- endmacro %}
