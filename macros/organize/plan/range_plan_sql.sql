{#-
  Returns SQL that plans the range boundaries of an organized table. The result has one row for each partition:
    p0, p1, ...   values of the partition columns
    rows          number of rows of the partition
    boundaries    lower boundaries of the files, ascending; values below the first boundary go to the first file
    files         number of files: one for each boundary, and one for NULLs if the partition has NULLs
    first_task    total number of files of the preceding partitions

  Boundaries are quantiles of a sample of about 100 rows per file, so the row counts of files differ by about 10 percent. The position of a row
  determines whether the row is in the sample, so a retried task samples the same rows. Rows with equal values have the same rank, and therefore go to
  the same file. Every boundary is the value of some row, so no file is empty. Boundaries never leave the cluster.

  With `range_boundaries_from`, the plan uses the boundaries of the other table. The plan leaves out boundaries of ranges in which this table has no
  rows.

  boundaries: string, from range_boundaries_sql(), or none
-#}
{% macro range_plan_sql(input, layout, rows_per_file, boundaries) -%}
  {%- set columns = spark_bucketing.partition_aliases(layout) -%}
  {%- set partition = columns | join(', ') -%}
  {%- set of_partition = 'partition by ' ~ partition if columns -%}
  {%- set same_partition = spark_bucketing.same_partition('one', 'other', columns) -%}
  with positions as (
    select
      {{ spark_bucketing.partition_select_list(layout) }}
      {{ spark_bucketing.quote_identifier(layout.range_by[0]) }} as value,
      xxhash64(_metadata.file_name, _metadata.row_index) as place
    from {{ spark_bucketing.quote_relation(input) }}
  ),
  counted as (
    select *, greatest(1, {{ spark_bucketing.files_of_partition(layout, rows_per_file) }}) as target_files
    from (
      {#- Rows with NULL go to a separate file, so only rows with a value count toward the number of files. -#}
      select {{ partition ~ ', ' if columns }}count(value) as rows, count_if(value is null) as nulls, sum(count(value)) over () as all_rows
      from positions
      {{ 'group by ' ~ partition if columns else 'having count(*) > 0' }}
    )
  ),
  {%- if boundaries %}
  shared as (
    {{ boundaries }}
  ),
  bounded as (
    select {{ partition ~ ', ' if columns }}array_sort(collect_set(boundary)) as boundaries
    from (
      {#- A partition that does not exist in the other table gets a single file. -#}
      select
        {{ spark_bucketing.quote_columns(columns, 'one.%s') ~ ', ' if columns }}
        coalesce(
          get(plan.boundaries, {{ spark_bucketing.file_of_boundaries('one.value', spark_bucketing.max_num_files()) }}),
          min(one.value) over ({{ 'partition by ' ~ spark_bucketing.quote_columns(columns, 'one.%s') if columns }})
        ) as boundary
      from positions as one
      left join shared as plan on {{ spark_bucketing.same_partition('one', 'plan', columns) }}
      where one.value is not null
    )
    {{ 'group by ' ~ partition if columns }}
  )
  {%- else %}
  sampled as (
    select {{ spark_bucketing.quote_columns(columns, 'one.%s') ~ ', ' if columns }}one.value, other.rows, other.target_files
    from positions as one
    inner join counted as other on {{ same_partition }}
    where one.value is not null and pmod(one.place, greatest(1, other.rows div other.target_files div 100)) = 0
  ),
  bounded as (
    select {{ partition ~ ', ' if columns }}array_sort(collect_list(boundary)) as boundaries
    from (
      select {{ partition ~ ', ' if columns }}min(value) as boundary
      from (
        select
          *,
          (rank() over ({{ of_partition }} order by value) - 1) * target_files div count(*) over ({{ of_partition }}) as range_number
        from sampled
      )
      group by {{ partition ~ ', ' if columns }}range_number
    )
    {{ 'group by ' ~ partition if columns }}
  )
  {%- endif %}
  select *, true as is_first, coalesce(sum(files) over (order by {{ partition or 'rows' }} rows unbounded preceding) - files, 0) as first_task
  from (
    select
      {{ spark_bucketing.quote_columns(columns, 'one.%s') ~ ', ' if columns }}
      one.rows + one.nulls as rows,
      other.boundaries,
      greatest(1, coalesce(size(other.boundaries), 0)) - if(one.rows = 0, 1, 0) + if(one.nulls > 0, 1, 0) as files
    from counted as one
    left join bounded as other on {{ same_partition }}
  )
{%- endmacro %}


{#- Returns a SQL condition that is true if two rows of plan tables belong to the same partition. -#}
{% macro same_partition(one, other, columns) -%}
  {%- set equal = [] -%}
  {%- for name in columns -%}
    {%- do equal.append(one ~ '.' ~ name ~ ' <=> ' ~ other ~ '.' ~ name) -%}
  {%- endfor -%}
  {{ return(equal | join(' and ') or 'true') }}
{%- endmacro %}


{#-
  Returns SQL for the file number of a value in its partition, from 0: the index of the last boundary that is less than or equal to the value.

  longest: int, the maximum number of files in a partition
-#}
{% macro file_of_value(value, longest) -%}
  {{ return('if(' ~ value ~ ' is null, greatest(0, size(plan.boundaries)), ' ~ spark_bucketing.file_of_boundaries(value, longest) ~ ')') }}
{%- endmacro %}


{#- Returns SQL for a binary search of a non-NULL value in `plan.boundaries`. -#}
{% macro file_of_boundaries(value, longest) -%}
  {%- set steps = [] -%}
  {%- for exponent in range(17) if 2 ** exponent < longest -%}
    {%- do steps.insert(0, 2 ** exponent) -%}
  {%- endfor -%}
  {%- if not steps -%}
    {%- do steps.append(1) -%}
  {%- endif -%}
  {{ return('aggregate(array(' ~ steps | join(', ') ~ '), 0, (i, step) -> if(get(plan.boundaries, i + step) <= ' ~ value ~ ', i + step, i))') }}
{%- endmacro %}
