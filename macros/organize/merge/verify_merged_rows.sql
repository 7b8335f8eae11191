{#-
  Raises where the new files have not the rows that they are to have, before they take the place of the old ones. Of each partition, by numbers
  of rows and sums of hashes: old rows + new ones - those that they take the place of, or delete, = what was written. Of each key: deleted ones are gone,
  and others there once. And the old files are still what the data map says of them.
-#}
{% macro verify_merged_rows(merge) -%}
  {%- set layout = merge.layout -%}
  {%- set hash = 'cast(xxhash64(' ~ spark_bucketing.hashed_columns(merge.columns, layout) ~ ') as decimal(38, 0))' -%}
  {%- set partition = layout.partition_by -%}
  {%- set names = spark_bucketing.group_names({'partition_by': partition, 'split_by': []}) | join(', ') -%}
  {%- set listed = names ~ ', ' if names else '' -%}
  {%- set values = spark_bucketing.group_values({'partition_by': partition, 'split_by': []}) -%}
  {%- set row_hash = '`__spark_bucketing_hash`' -%}
  {%- set keys = spark_bucketing.quote_columns(merge.unique_key) -%}
  {%- set routed = spark_bucketing.quote_relation(merge.of.tmp) -%}
  {%- set written %}
    with old as (
      select *, {{ hash }} as {{ row_hash }} from {{ spark_bucketing.rows_of_touched_files(merge) }} as DBT_INTERNAL_DEST
    ),
    counted as (
      select {{ values }}`__spark_bucketing_file` as file, count(*) as rows, sum({{ row_hash }}) as checksum from old group by all
    ),
    gone as (
      select DBT_INTERNAL_DEST.* from old as DBT_INTERNAL_DEST
      left semi join {{ spark_bucketing.quote_relation(merge.of.input) }} as DBT_INTERNAL_SOURCE on {{ spark_bucketing.merge_condition(merge) }}
    )
    select
      (select count(*) from (
        select 1 from (
          select {{ listed }}rows, checksum from counted
          union all
          select {{ values }}-1, -{{ row_hash }} from gone
          union all
          select {{ values }}1, {{ hash }} from {{ routed }} where not `__spark_bucketing_delete`
          union all
          select {% for name in partition %}partition.{{ spark_bucketing.quote_identifier(name) }}, {% endfor %}-rows, -checksum
          from data_map({{ spark_bucketing.string_literal(spark_bucketing.quote_relation(merge.of.staged)) }})
        )
        {{ 'group by ' ~ names if names }}
        having sum(rows) <> 0 or sum(checksum) <> 0
      )) as partitions,
      (select count(*) from {{ spark_bucketing.quote_relation(merge.of.touched) }} as touched left join counted using (file)
        where file is not null and (counted.rows is null or touched.interval_number <> -1 and (counted.rows <> touched.rows or counted.checksum <> touched.checksum))) as old_files,
      abs((select count(*) from gone) - (select count(*) from {{ routed }} where `__spark_bucketing_file` is not null)) as old_rows
  {%- endset -%}
  {%- set there %}
    {#- Rows of these keys that `incremental_predicates` leave out stay where they are. -#}
    select
      count_if({{ 'false' if merge.predicates else '`__spark_bucketing_delete` and `__spark_bucketing_there` > 0' }}),
      count_if(not `__spark_bucketing_delete` and coalesce(`__spark_bucketing_there`, 0) {{ '< 1' if merge.predicates else '<> 1' }})
    from {{ routed }} as routed
    left join (select {{ keys }}, count(*) as `__spark_bucketing_there` from {{ spark_bucketing.quote_relation(merge.of.staged) }} group by {{ keys }}) as staged using ({{ keys }})
    where {{ spark_bucketing.quote_columns(merge.unique_key, 'routed.%s is not null').replace(', ', ' and ') }}
  {%- endset -%}
  {%- set found = run_query(written).rows[0].values() | list + run_query(there).rows[0].values() | list -%}
  {%- set wrong = [] -%}
  {%- for number, words in zip(found, ['partition(s) whose rows are not the old ones with those of this run',
      "old file(s) whose rows are not what the table's data map says: see `spark-bucketing map verify " ~ merge.of.table.schema ~ '.' ~ merge.of.table.identifier ~ '`',
      'row(s) to be deleted or updated that are not in the old files',
      'key(s) that were to be deleted and are there', 'key(s) that are not there once']) if number | int -%}
    {%- do wrong.append('{:,}'.format(number | int) ~ ' ' ~ words) -%}
  {%- endfor -%}
  {%- if wrong -%}
    {% do exceptions.raise_compiler_error("Model '" ~ model.name ~ "': the new files are not what they are to be, and the table is as it was.\n  found:    " ~ wrong | join('; ')
        ~ '\n  expected: the rows of the files that are replaced, with those of this run\n  instead:  run it again; should it be found again, dbt run --full-refresh') %}
  {%- endif -%}
{%- endmacro %}
