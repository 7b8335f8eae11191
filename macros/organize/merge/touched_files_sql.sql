{#-
  SQL for the files that a merge writes anew, and, without a file, for the intervals beyond all files that get rows:
    file, bytes, modified, rows, checksum   of the file as it is
    p0, p1, ...           values of groups_of()
    interval_number       as in routed_rows_sql(); -1 for files of which the map does not know what is in them
    island                files of a partition that follow each other have one number: their rows are planned together
    is_alone              whether its island has no other file and no other interval
  Touched are files that have a row of the run's keys, or that a new row falls into. Besides, lest files get smaller with every run: a file below half
  of the wanted rows next to a touched one; and where touched ones that follow each other have together less than half of it, a neighbour.
-#}
{% macro touched_files_sql(merge, rows_per_file) -%}
  {%- set groups = spark_bucketing.group_names(merge.layout) -%}
  {%- set listed = groups | join(', ') ~ ', ' if groups else '' -%}
  {%- set of_partition = 'partition by ' ~ listed ~ 'interval_number < 0' -%}
  {%- set in_order = of_partition ~ ' order by interval_number' -%}
  {%- set island = 'count_if(is_touched and not is_after_touched) over (' ~ in_order ~ ')' -%}
  {%- set after = 'coalesce(lag(is_touched) over (' ~ in_order ~ '), false) and interval_number >= 0' -%}
  {%- set small = 'rows_after * 2 < ' ~ rows_per_file -%}
  with files as (
    select
      file, bytes, modified, rows, checksum, {{ listed }}
      case when not is_known then -1 when lower is null then -2 else number end as interval_number
    from (
      select *, dense_rank() over (partition by {{ listed }}is_known, lower is null order by lower) as number
      from (select *, row_number() over (partition by file order by rows) as copy from {{ spark_bucketing.quote_relation(merge.of.files) }})
      where copy = 1
    )
  ),
  removed as (
    select `__spark_bucketing_file` as file, count(*) as removed from {{ spark_bucketing.quote_relation(merge.of.tmp) }} where `__spark_bucketing_file` is not null group by all
  ),
  added as (
    select {{ spark_bucketing.group_values(merge.layout) }}`__spark_bucketing_interval` as interval_number, count(*) as added
    from {{ spark_bucketing.quote_relation(merge.of.tmp) }}
    where not `__spark_bucketing_delete`
    group by all
  ),
  intervals as (
    select {{ listed }}interval_number, max(is_touched) as is_touched, sum(rows_after) as rows_after, max(has_file) as has_file
    from (
      select {{ listed }}interval_number, removed is not null as is_touched, coalesce(rows, 0) - coalesce(removed, 0) as rows_after, true as has_file
      from files left join removed using (file)
      union all
      select {{ listed }}interval_number, true, added, false from added
    )
    group by {{ listed }}interval_number
  ),
  with_small_neighbours as (
    select
      {{ listed }}interval_number, rows_after, has_file,
      is_touched or interval_number >= 0 and {{ small }} and has_file
        and (coalesce(lag(is_touched) over ({{ in_order }}), false) or coalesce(lead(is_touched) over ({{ in_order }}), false)) as is_touched
    from intervals
  ),
  in_islands as (
    select *, {{ island }} as island
    from (select *, {{ after }} as is_after_touched from with_small_neighbours)
  ),
  sized as (
    select
      *,
      is_touched and has_rewritten and island_rows * 2 < {{ rows_per_file }} as is_small,
      interval_number = first_interval as is_first
    from (
      select
        *,
        sum(rows_after) over (partition by {{ listed }}interval_number < 0, is_touched, island) as island_rows,
        max(has_file) over (partition by {{ listed }}interval_number < 0, is_touched, island) as has_rewritten,
        min(interval_number) over (partition by {{ listed }}interval_number < 0, is_touched, island) as island_begins,
        min(interval_number) over ({{ of_partition }}) as first_interval
      from in_islands
    )
  ),
  with_large_neighbours as (
    select
      {{ listed }}interval_number,
      is_touched or interval_number >= 0 and (
        coalesce(lead(is_small) over ({{ in_order }}), false)
        or coalesce(lag(is_small and island_begins = first_interval) over ({{ in_order }}), false)
      ) as is_touched
    from sized
  ),
  touched as (
    select {{ listed }}interval_number, if(interval_number < 0, interval_number, {{ island }}) as island, is_touched
    from (select *, {{ after }} as is_after_touched from with_large_neighbours)
  )
  select /*+ coalesce(1) */
    {% for name in groups %}touched.{{ name }}, {% endfor %}touched.interval_number, touched.island,
    count(touched.interval_number) over (partition by {% for name in groups %}touched.{{ name }}, {% endfor %}touched.island, touched.is_touched) = 1 as is_alone,
    files.file, files.bytes, files.modified, files.rows, files.checksum
  from touched
  left join files
    on {{ spark_bucketing.same_groups('touched', 'files', groups) }} and touched.interval_number = files.interval_number
  left join removed
    on files.file = removed.file
  where touched.is_touched and (touched.interval_number <> -1 or removed.file is not null)
{%- endmacro %}
