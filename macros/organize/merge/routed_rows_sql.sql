{#-
  Returns SQL for the rows of a run in the form in which the table will contain them. In addition to the table's columns:
    __spark_bucketing_delete, _insert, _update    whether the config marks the row for this operation
    __spark_bucketing_file                        file of the row that it replaces or deletes; NULL for none
    __spark_bucketing_range                       number of the range of its partition that contains it: from 1 for the ranges of the table's
                                                  files, 0 below all, their number plus one above all, -2 for NULLs

  Reads only files that may contain the keys, according to the file statistics.
-#}
{% macro routed_rows_sql(merge) -%}
  {%- set layout = merge.layout -%}
  {%- set groups = spark_bucketing.partition_aliases(layout) -%}
  {%- set names = merge.columns | map(attribute='name') | list -%}
  {%- set updates = spark_bucketing.updated_columns(merge) -%}
  {%- set needed = names if updates | length < names | length or merge.predicates else merge.unique_key -%}
  {%- set value = 'routed.' ~ spark_bucketing.quote_columns(layout.range_by) -%}
  {%- set operations = '`__spark_bucketing_delete`, `__spark_bucketing_insert`, `__spark_bucketing_update`' -%}
  select
    routed.*,
    case
      when `__spark_bucketing_delete` then null
      when {{ value }} is null then -2
      when plan.boundaries is null then 1
      when {{ value }} < plan.boundaries[0] then 0
      when {{ value }} > plan.last then size(plan.boundaries) + 1
      else 1 + {{ spark_bucketing.file_of_boundaries(value, spark_bucketing.max_num_files()) }}
    end as `__spark_bucketing_range`
  from (
    select
      {%- for name in names %}
      {%- set column = spark_bucketing.quote_identifier(name) %}
      {{ 'DBT_INTERNAL_SOURCE.' ~ column if name in updates
          else 'if(DBT_INTERNAL_DEST.`__spark_bucketing_file` is null, DBT_INTERNAL_SOURCE.' ~ column ~ ', DBT_INTERNAL_DEST.' ~ column ~ ') as ' ~ column }},
      {%- endfor %}
      {{ operations }},
      DBT_INTERNAL_DEST.`__spark_bucketing_file`
    from {{ spark_bucketing.quote_relation(merge.of.input) }} as DBT_INTERNAL_SOURCE
    left join (
      select {{ spark_bucketing.aligned_list(needed, merge) }}, _metadata.file_path as `__spark_bucketing_file`
      from {{ spark_bucketing.quote_relation(merge.of.table) }}
      where {{ spark_bucketing.file_name_condition(spark_bucketing.candidate_files(merge)) }}
    ) as DBT_INTERNAL_DEST
      on {{ spark_bucketing.merge_condition(merge) }}
  ) as routed
  left join (
    select {{ groups | join(', ') ~ ', ' if groups }}array_sort(collect_set(lower)) as boundaries, max(upper) as last
    from {{ spark_bucketing.quote_relation(merge.of.files) }}
    where is_known and lower is not null
    {{ 'group by ' ~ groups | join(', ') if groups else 'having count(*) > 0' }}
  ) as plan
    on {{ spark_bucketing.partition_condition('routed', 'plan', layout) }}
{%- endmacro %}


{#- Returns a condition that joins rows with the plan of their partition and implicit partition. -#}
{% macro partition_condition(rows, plan, layout) -%}
  {%- set equal = [] -%}
  {%- for name in spark_bucketing.file_partition_columns(layout) -%}
    {%- do equal.append(rows ~ '.' ~ spark_bucketing.quote_identifier(name) ~ ' <=> ' ~ plan ~ '.p' ~ loop.index0) -%}
  {%- endfor -%}
  {{ return(equal | join(' and ') or 'true') }}
{%- endmacro %}


{#- Returns the columns that a merge updates in a matched row. -#}
{% macro updated_columns(merge) -%}
  {%- set updates = [] -%}
  {%- for column in merge.columns -%}
    {%- if (not merge.update_columns or column.name | lower in merge.update_columns | map('lower') | list)
        and column.name | lower not in merge.exclude_columns | map('lower') | list -%}
      {%- do updates.append(column.name) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(updates) }}
{%- endmacro %}


{#- Returns a select list of the table, with NULL for columns that the run has not added yet. -#}
{% macro aligned_list(names, merge) -%}
  {%- set there = spark_bucketing.table_columns(spark_bucketing.quote_relation(merge.of.table)) | map(attribute='name') | list -%}
  {%- set items = [] -%}
  {%- for column in merge.columns if column.name | lower in names | map('lower') | list -%}
    {%- set name = spark_bucketing.quote_identifier(column.name) -%}
    {%- do items.append(name if column.name in there else 'cast(null as ' ~ spark_bucketing.quoted_type(column.type) ~ ') as ' ~ name) -%}
  {%- endfor -%}
  {{ return(items | join(', ')) }}
{%- endmacro %}


{#-
  Returns file_name_list() for the files that may contain keys of the run. If the key includes the range column, these are the files whose
  range contains a value of the run, and the files without statistics.

  A single pass over both in descending order finds the smallest value of the run that is not below a file's range.
-#}
{% macro candidate_files(merge) -%}
  {%- set layout = merge.layout -%}
  {%- set keys = merge.unique_key | map('lower') | list -%}
  {%- set by_value = layout.range_by[0] | lower in keys -%}
  {%- set groups = [] -%}
  {%- for name in spark_bucketing.file_partition_columns(layout) if name | lower in keys -%}
    {%- do groups.append({'plan': 'p' ~ spark_bucketing.file_partition_columns(layout).index(name), 'column': spark_bucketing.quote_identifier(name)}) -%}
  {%- endfor -%}
  {%- if not by_value and not groups -%}
    {{ return({'names': none}) }}
  {%- endif -%}
  {%- set of_file = groups | map(attribute='plan') | list -%}
  {%- set listed -%}
    (
      select file
      from (
        select *, last(value, true) over ({{ 'partition by ' ~ of_file | join(', ') if of_file }} order by place desc, value is null rows unbounded preceding) as next_value
        from (
          select {{ of_file | join(', ') ~ ', ' if of_file }}file, is_known, {{ 'lower' if by_value else '1' }} as place, {{ spark_bucketing.range_upper_bound(merge) if by_value else '1' }} as upper,
            {{ 'if(false, lower, null)' if by_value else 'if(false, 1, null)' }} as value
          from {{ spark_bucketing.quote_relation(merge.of.files) }}
          union all
          select {% for group in groups %}{{ group.column }}, {% endfor %}null, true, {{ spark_bucketing.quote_identifier(layout.range_by[0]) if by_value else '1' }} as place, null,
            {{ spark_bucketing.quote_identifier(layout.range_by[0]) if by_value else '1' }}
          from {{ spark_bucketing.quote_relation(merge.of.input) }}
        )
      )
      where file is not null and (not is_known or next_value <= upper)
    )
  {%- endset -%}
  {{ return(spark_bucketing.file_name_list(listed, merge.of.files)) }}
{%- endmacro %}


{#- Returns SQL for an upper bound on a file's values. A session may have written the timestamps in the statistics in milliseconds. -#}
{% macro range_upper_bound(merge) -%}
  {%- set column = spark_bucketing.columns_named(merge.columns, merge.layout.range_by)[0] -%}
  {{ return("upper + interval '0.000999' second" if column.type.startswith('timestamp') else 'upper') }}
{%- endmacro %}
