{#-
  Raises an error if the new files do not contain the expected rows, before they replace the old files.

  For each partition, it compares row counts and sums of hashes: old rows + new rows - replaced and deleted rows = written rows. It also
  checks that deleted keys are gone, that every other key of this run occurs once, and that the old files match the file statistics.
-#}
{% macro verify_merged_rows(merge) -%}
  {%- set layout = merge.layout -%}
  {%- set hash = 'cast(xxhash64(' ~ spark_bucketing.hashed_columns(merge.columns, layout) ~ ') as decimal(38, 0))' -%}
  {%- set partition = layout.partition_by -%}
  {%- set groups = {'partition_by': partition, 'implicit_partition_by': []} -%}
  {%- set names = spark_bucketing.partition_aliases(groups) | join(', ') -%}
  {%- set listed = names ~ ', ' if names else '' -%}
  {%- set keys = spark_bucketing.quote_columns(merge.unique_key) -%}
  {%- set routed = spark_bucketing.quote_relation(merge.of.tmp) -%}
  {#- Each key has at most one new row, so the join returns each old row once. -#}
  {%- set written %}
    with old as (
      select
        {{ spark_bucketing.partition_select_list(groups, 'DBT_INTERNAL_DEST.') }}`__spark_bucketing_file` as file,
        count(*) as rows,
        sum(`__spark_bucketing_hash`) as checksum,
        count_if(DBT_INTERNAL_SOURCE.`__spark_bucketing_delete` is not null) as gone,
        sum(if(DBT_INTERNAL_SOURCE.`__spark_bucketing_delete` is not null, `__spark_bucketing_hash`, 0)) as gone_checksum
      from (select *, {{ hash }} as `__spark_bucketing_hash` from {{ spark_bucketing.rows_of_touched_files(merge, merge.names, spark_bucketing.quote_relation(merge.of.touched)) }}) as DBT_INTERNAL_DEST
      left join {{ spark_bucketing.quote_relation(merge.of.input) }} as DBT_INTERNAL_SOURCE on {{ spark_bucketing.merge_condition(merge) }}
      group by all
    )
    select count_if(rows <> 0 or checksum <> 0) as partitions, coalesce(sum(wrong_files), 0) as old_files, coalesce(abs(sum(gone)), 0) as old_rows
    from (
      select {{ listed }}sum(rows) as rows, sum(checksum) as checksum, sum(wrong_files) as wrong_files, sum(gone) as gone
      from (
        select
          {{ 'old.' ~ names.replace(', ', ', old.') ~ ', ' if names }}old.rows - gone as rows, old.checksum - gone_checksum as checksum, gone,
          if(old.rows is null or touched.range_number <> -1 and (old.rows <> touched.rows or old.checksum <> touched.checksum), 1, 0) as wrong_files
        from {{ spark_bucketing.quote_relation(merge.of.touched) }} as touched
        left join old on touched.file = old.file
        where touched.file is not null
        union all
        select {{ spark_bucketing.partition_select_list(groups) }}if(`__spark_bucketing_delete`, 0, 1), if(`__spark_bucketing_delete`, 0, {{ hash }}), if(`__spark_bucketing_file` is null, 0, -1), 0
        from {{ routed }}
        union all
        select {% for name in partition %}partition.{{ spark_bucketing.quote_identifier(name) }}, {% endfor %}-rows, -checksum, 0, 0
        from file_statistics({{ spark_bucketing.string_literal(spark_bucketing.quote_relation(merge.of.staged)) }})
      )
      {{ 'group by ' ~ names if names }}
    )
  {%- endset -%}
  {%- set there %}
    {#- Rows that `incremental_predicates` exclude remain in the table, so their keys can occur more than once. -#}
    select
      count_if({{ 'false' if merge.predicates else '`__spark_bucketing_delete` and `__spark_bucketing_there` > 0' }}),
      count_if(not `__spark_bucketing_delete` and coalesce(`__spark_bucketing_there`, 0) {{ '< 1' if merge.predicates else '<> 1' }})
    from {{ routed }} as routed
    left join (
      select {{ keys }}, count(*) as `__spark_bucketing_there`
      from {{ spark_bucketing.quote_relation(merge.of.staged) }} left semi join {{ routed }} using ({{ keys }})
      group by {{ keys }}
    ) as staged using ({{ keys }})
    where {{ spark_bucketing.quote_columns(merge.unique_key, 'routed.%s is not null').replace(', ', ' and ') }}
  {%- endset -%}
  {%- set found = run_query(written).rows[0].values() | list + run_query(there).rows[0].values() | list -%}
  {%- set wrong = [] -%}
  {%- for number, words in zip(found, ['partition(s) whose row count or checksum is wrong',
      'old file(s) that differ from their file statistics',
      'replaced or deleted row(s) that are missing in the old files',
      'deleted key(s) that are still present', 'key(s) that do not occur exactly once']) if number | int -%}
    {%- do wrong.append('{:,}'.format(number | int) ~ ' ' ~ words) -%}
  {%- endfor -%}
  {%- if wrong -%}
    {%- set table = merge.of.table.schema ~ '.' ~ merge.of.table.identifier -%}
    {%- set repair = 'check the file statistics with `spark-bucketing table verify --deep ' ~ table ~ '` and rebuild them with `spark-bucketing table stats --repair ' ~ table ~ '`'
        if found[1] | int else 'use dbt run --full-refresh' -%}
    {% do exceptions.raise_compiler_error("Model '" ~ model.name ~ "': the merge wrote files with unexpected rows; the table is unchanged.\n  found:    " ~ wrong | join('; ')
        ~ '\n  expected: the rows of the replaced files, merged with the rows of this run\n  instead:  run the model again; if the error persists, ' ~ repair) %}
  {%- endif -%}
{%- endmacro %}
