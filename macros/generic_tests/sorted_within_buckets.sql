{#-
  Files with rows that are smaller than the row before them, by the table's sort columns (the partition's own, where it has a
  spec of its own), as Spark sorts them: ascending, NULL first, NaN last.

  A row's place in its file is (start of its split, its number within the reading task): a big file is read by several
  tasks in any order, but a split is read by one of them from its first row to its last.
  Rows without a file name come from a `where` that shuffles; their place is lost, which is not a pass.
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
      {#- What is sealed without an order has none in its descriptor either: of the table's own spec the table says it. -#}
      {%- set is_of_table = part.buckets == layout.buckets and part.clustered_by == layout.clustered_by | map('lower') | list -%}
      {%- set expected = part.described.sorted_by or (layout.sorted_by if is_of_table else []) -%}
      {%- if expected -%}
        {%- do unsorted.append([part.location, part.partition, 'rows that are not sorted by ' ~ expected | join(', ')]) -%}
      {%- endif -%}
    {%- endfor -%}
    {%- if not layout.sorted_by and not specs.groups | selectattr('sorted_by') | list -%}
      {{ spark_bucketing.inconclusive_sql(spark_bucketing.test_problem(tested.relation, 'a bucketed table without (ascending) sort columns',
          'SORTED BY columns', 'set `sorted_by` in the config of the model, or leave this test out')) }}
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
