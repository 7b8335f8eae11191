{#-
  Returns files in which some row sorts before the previous row in Spark's order: ascending, NULL first, NaN last. The sort columns come from the
  partition's bucket spec or, if the partition has no spec, from the table's spec.

  The position of a row in its file follows from the start of its split and from the row's number within the task. Several tasks may read a large file
  in any order, but a single task reads each split from start to end. If the config `where` causes a shuffle, rows have no file names, so the test
  fails.
-#}
{% test sorted_within_buckets(model) %}
  {%- call(tested) spark_bucketing.files_test_sql(model) -%}
    {%- set layout = tested.layout -%}
    {%- set specs = tested.specs -%}
    {%- set orders = [] -%}
    {%- for group in specs.groups -%}
      {%- do orders.append('struct(' ~ spark_bucketing.quote_columns(group.sorted_by) ~ ')' if group.sorted_by else 'cast(null as struct<none: int>)') -%}
    {%- endfor -%}
    {%- set unsorted = [] -%}
    {%- for part in specs.sealed if not part.sorted_by -%}
      {#- If a partition is sealed as unsorted, its descriptor has no sort columns. The test then uses the table's sort columns. -#}
      {%- set is_of_table = part.buckets == layout.buckets and part.clustered_by == layout.clustered_by | map('lower') | list -%}
      {%- set expected = part.described.sorted_by or (layout.sorted_by if is_of_table else []) -%}
      {%- if expected -%}
        {%- do unsorted.append([part.location, part.partition, 'not sorted by ' ~ expected | join(', ')]) -%}
      {%- endif -%}
    {%- endfor -%}
    {%- if not layout.sorted_by and not specs.groups | selectattr('sorted_by') | list -%}
      {{ spark_bucketing.inconclusive_sql(spark_bucketing.test_problem(tested.relation, 'a bucketed table without ascending sort columns',
          'a table with SORTED BY', 'set `sorted_by` in the config of the model, or remove this test')) }}
    {%- elif unsorted or not specs.loose -%}
      {{ spark_bucketing.literal_rows_sql(['directory', 'partition', 'problem'], unsorted) }}
    {%- else -%}
      select *
      from (
        select file, if(file = '', file_rows, get(unsorted, spec)) as unsorted_rows
        from ({{ spark_bucketing.unsorted_rows_sql(specs.rows, orders) }})
        left join {{ specs.sql }} as partitions on {{ spark_bucketing.is_of_partition(specs, 'file') }}
      )
      where unsorted_rows > 0
      order by unsorted_rows desc, file
      limit 1000
    {%- endif -%}
  {%- endcall -%}
{% endtest %}
