{#-
  Files with rows that are smaller than the row before them, by the table's sort columns, as Spark sorts them: ascending,
  NULL first, NaN last.

  A row's place in its file is (start of its split, its number within the reading task): a big file is read by several
  tasks in any order, but a split is read by one of them from its first row to its last.
  Rows without a file name come from a `where` that shuffles; their place is lost, which is not a pass.
-#}
{% test sorted_within_buckets(model) %}
  {%- if execute -%}
    {%- set relation = spark_bucketing.tested_relation(model) -%}
    {%- set layout = spark_bucketing.tested_layout(relation) -%}
    {%- if not layout.problem and not layout.sorted_by -%}
      {%- do layout.update({'problem': spark_bucketing.test_problem(relation, 'a bucketed table without (ascending) sort columns',
          'SORTED BY columns', 'set `sorted_by` in the config of the model, or leave this test out')}) -%}
    {%- endif -%}
    {%- if layout.problem -%}
      {{ spark_bucketing.cannot_tell_sql(layout.problem) }}
    {%- else -%}
      select *
      from (
        select file, count(*) as unsorted_rows
        from (
          select file, sort_key, lag(sort_key) over (partition by file order by split_start, row_number) as sort_key_before
          from (
            select
              input_file_name() as file,
              input_file_block_start() as split_start,
              monotonically_increasing_id() as row_number,
              struct({{ spark_bucketing.quote_columns(layout.sorted_by) }}) as sort_key
            from {{ spark_bucketing.tested_rows(model) }}
          )
        )
        where sort_key < sort_key_before or file = ''
        group by file
        order by unsorted_rows desc, file
        limit 1000
      )
    {%- endif -%}
  {%- endif -%}
{% endtest %}
