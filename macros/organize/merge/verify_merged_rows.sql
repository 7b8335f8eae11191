{#-
  Raises where the new files have not the rows that they are to have, before they take the place of the old ones. Of each partition, by numbers
  of rows and sums of hashes: old rows + new ones - those that they take the place of, or delete, = what was written. Of each key: deleted ones are gone,
  and others there once. And the old files are still what the file statistics say of them.
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
  {#- At most one new row has a key: the join returns each old row once. -#}
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
    {#- Rows of these keys that `incremental_predicates` leave out stay where they are. -#}
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
  {%- for number, words in zip(found, ['partition(s) whose rows are not the old ones with those of this run',
      "old file(s) whose rows are not what the table's file statistics say",
      'row(s) to be deleted or updated that are not in the old files',
      'key(s) that were to be deleted and are there', 'key(s) that are not there once']) if number | int -%}
    {%- do wrong.append('{:,}'.format(number | int) ~ ' ' ~ words) -%}
  {%- endfor -%}
  {%- if wrong -%}
    {%- set table = merge.of.table.schema ~ '.' ~ merge.of.table.identifier -%}
    {%- set cure = 'compare the map with the rows, `spark-bucketing table verify --deep ' ~ table ~ '`, and write it anew, `spark-bucketing table stats --repair ' ~ table ~ '`'
        if found[1] | int else 'dbt run --full-refresh' -%}
    {% do exceptions.raise_compiler_error("Model '" ~ model.name ~ "': the new files are not what they are to be, and no row of the table has been changed.\n  found:    " ~ wrong | join('; ')
        ~ '\n  expected: the rows of the files that are replaced, with those of this run\n  instead:  run it again; should it be found again, ' ~ cure) %}
  {%- endif -%}
{%- endmacro %}
