{#-
  Returns SQL for the files that a merge rewrites, and for new ranges outside of all files (with a NULL file):
    file, bytes, modified, rows, checksum   of the current file
    p0, p1, ...           values of file_partition_columns()
    range_number          as in routed_rows_sql(); -1 for files without statistics
    bin                   number of the compaction bin. Ranges with less than half of the target rows share a bin with their neighbors.
    is_alone              whether the bin has a single range
    bin_rows              future number of rows of the bin
    is_open               whether the bin may become several files, so that its rows must be read to find their boundaries

  A merge touches the files that contain a key of the run or receive a new row. To prevent files from shrinking with every run, it also
  touches small neighbors: a file with less than half of the target rows next to a touched file. If a bin still has less than half of the
  target rows, the merge adds the file before the bin or, if there is none, the file after it. Files with more than twice the target rows are never
  added: they may consist of a single value, and every run would rewrite them.
-#}
{% macro touched_files_sql(merge, rows_per_file) -%}
  {%- set groups = spark_bucketing.partition_aliases(merge.layout) -%}
  {%- set listed = groups | join(', ') ~ ', ' if groups else '' -%}
  {#- Files that lose all of their rows do not count as neighbors. -#}
  {%- set of_partition = 'partition by ' ~ listed ~ 'range_number < 0, rows_after = 0' -%}
  {%- set in_order = of_partition ~ ' order by range_number' -%}
  {%- set small = 'rows_after * 2 < ' ~ rows_per_file -%}
  {%- set not_oversized = 'rows_after <= ' ~ 2 * rows_per_file -%}
  {%- set joins = 'range_number >= 0 and coalesce(lag(is_touched) over (' ~ in_order ~ ') and (' ~ small ~ ' or lag(' ~ small ~ ') over (' ~ in_order ~ ')), false)' -%}
  {%- set bin = 'count_if(is_touched and not joins) over (' ~ in_order ~ ')' -%}
  with removed as (
    select `__spark_bucketing_file` as file, count(*) as removed from {{ spark_bucketing.quote_relation(merge.of.tmp) }} where `__spark_bucketing_file` is not null group by all
  ),
  added as (
    select {{ spark_bucketing.partition_select_list(merge.layout) }}`__spark_bucketing_range` as range_number, count(*) as added
    from {{ spark_bucketing.quote_relation(merge.of.tmp) }}
    where not `__spark_bucketing_delete`
    group by all
  ),
  changed as (
    select {{ listed }}range_number, removed is not null as is_touched, coalesce(rows, 0) - coalesce(removed, 0) as rows_after, true as has_file
    from {{ spark_bucketing.quote_relation(merge.of.files) }} left join removed using (file)
    union all
    select {{ listed }}range_number, true, added, false from added
  ),
  ranges as (
    select {{ listed }}range_number, max(is_touched) as is_touched, sum(rows_after) as rows_after, max(has_file) as has_file
    from ({{ spark_bucketing.single_task('changed') }})
    group by {{ listed }}range_number
  ),
  with_small_neighbors as (
    select
      {{ listed }}range_number, rows_after, has_file,
      is_touched or range_number >= 0 and {{ small }} and has_file
        and (coalesce(lag(is_touched) over ({{ in_order }}), false) or coalesce(lead(is_touched) over ({{ in_order }}), false)) as is_touched
    from ranges
  ),
  in_bins as (
    select *, {{ bin }} as bin
    from (
      select *, {{ joins }} as joins, coalesce(lag({{ not_oversized }}) over ({{ in_order }}), false) as takes_before
      from with_small_neighbors
    )
  ),
  sized as (
    select *, is_touched and has_rewritten and bin_rows * 2 < {{ rows_per_file }} as is_small
    from (
      select
        *,
        sum(rows_after) over ({{ of_partition }}, is_touched, bin) as bin_rows,
        max(has_file) over ({{ of_partition }}, is_touched, bin) as has_rewritten,
        first(takes_before) over ({{ of_partition }}, is_touched, bin order by range_number) as is_taken_before
      from in_bins
    )
  ),
  with_large_neighbors as (
    select
      {{ listed }}range_number, rows_after,
      is_touched or range_number >= 0 and {{ not_oversized }} and (
        coalesce(lead(is_small) over ({{ in_order }}), false)
        or coalesce(lag(is_small and not is_taken_before) over ({{ in_order }}), false)
      ) as is_touched
    from sized
  ),
  touched as (
    select
      {{ listed }}range_number, bin, is_touched, is_alone, bin_rows,
      {#- The NULLs of a partition always fill a separate file. -#}
      range_number = -1 or range_number >= 0 and {{ spark_bucketing.files_of_bin('bin_rows', 'is_alone', rows_per_file) }} > 1 as is_open
    from (
      select
        *,
        count(*) over (partition by {{ listed }}bin, is_touched) = 1 as is_alone,
        sum(rows_after) over (partition by {{ listed }}bin, is_touched) as bin_rows
      from (
        select *, case when range_number < 0 then range_number when rows_after = 0 then -3 else {{ bin }} end as bin
        from (select *, {{ joins }} as joins from with_large_neighbors)
      )
    )
  )
  select /*+ coalesce(1) */
    {% for name in groups %}touched.{{ name }}, {% endfor %}touched.range_number, touched.bin, touched.is_alone, touched.bin_rows, touched.is_open,
    files.file, files.bytes, files.modified, files.rows, files.checksum
  from touched
  left join {{ spark_bucketing.quote_relation(merge.of.files) }} as files
    on {{ spark_bucketing.same_partition('touched', 'files', groups) }} and touched.range_number = files.range_number
  left join removed
    on files.file = removed.file
  where touched.is_touched and (touched.range_number <> -1 or removed.file is not null)
{%- endmacro %}
