{#-
  Raises an error if the run's rows contradict the table, before it changes the table: if several new rows, or several rows in the table,
  have the same key. With merge_checks, also raises an error if keys to delete or update are missing, or if keys to insert exist.

  Returns an id of the run's rows, or none if the previous merge already applied the same rows.
-#}
{% macro validate_routed_rows(merge, existing) -%}
  {%- set keys = spark_bucketing.quote_columns(merge.unique_key) -%}
  {%- set row = 'to_json(struct(' ~ keys ~ '))' -%}
  {%- set is_there = '`__spark_bucketing_file` is not null' -%}
  {%- set problems = [
      {'wrong': '`__spark_bucketing_copies` > 1'},
      {'setting': 'delete_when', 'wrong': '`__spark_bucketing_delete` and not (' ~ is_there ~ ')', 'words': 'rows to delete whose keys are not in the table',
          'expected': 'only keys that exist in the table'},
      {'setting': 'update_when', 'wrong': '`__spark_bucketing_update` and not (' ~ is_there ~ ')', 'words': 'rows to update whose keys are not in the table',
          'expected': 'only keys that exist in the table'},
      {'setting': 'insert_when', 'wrong': '`__spark_bucketing_insert` and ' ~ is_there, 'words': 'rows to insert whose keys are already in the table',
          'expected': 'only keys that do not exist in the table'},
  ] -%}
  {%- set asked = problems if merge.checks else problems[:1] -%}
  {%- set hashed = spark_bucketing.hashed_columns(spark_bucketing.columns_named(merge.columns, merge.unique_key + spark_bucketing.updated_columns(merge)), {'partition_by': []}) -%}
  {%- set sums = ["count(*) || ' rows ' || coalesce(sum(cast(xxhash64(" ~ hashed ~ ', `__spark_bucketing_delete`) as decimal(38, 0))), 0)'] -%}
  {%- for problem in asked -%}
    {%- do sums.append('count_if(' ~ problem.wrong ~ '), first(if(' ~ problem.wrong ~ ', ' ~ row ~ ', null), true)') -%}
  {%- endfor -%}
  {%- set found = run_query('select ' ~ sums | join(', ') ~ ' from (select *, if(' ~ spark_bucketing.quote_columns(merge.unique_key, '%s is null').replace(', ', ' or ')
      ~ ', 1, count(*) over (partition by ' ~ keys ~ ')) as `__spark_bucketing_copies` from ' ~ spark_bucketing.quote_relation(merge.of.tmp) ~ ')').rows[0] -%}
  {%- for problem, number, example in zip(asked, found.values()[1::2], found.values()[2::2]) if number | int -%}
    {%- if not problem.setting -%}
      {% do spark_bucketing.raise_repeated_key(merge, example) %}
    {%- elif found[0] == existing.merged and spark_bucketing.has_merged_rows(merge) -%}
      {{ return(none) }}
    {%- endif -%}
    {% do spark_bucketing.drop_tables([merge.of.tmp, merge.of.files, merge.of.input]) %}
    {% do spark_bucketing.raise_config_error(problem.setting, '{:,}'.format(number | int) ~ ' ' ~ problem.words ~ ', such as ' ~ example ~ ' (the table is unchanged)',
        problem.expected, 'check whether an earlier run already merged these rows, or disable the checks with merge_checks=false') %}
  {%- endfor -%}
  {{ return(found[0]) }}
{%- endmacro %}


{#- Returns whether the table already contains the result of the merge: no deleted keys, and equal values in the updated columns. -#}
{% macro has_merged_rows(merge) -%}
  {%- set same = [] -%}
  {%- for column in spark_bucketing.columns_named(merge.columns, spark_bucketing.updated_columns(merge)) -%}
    {%- do same.append(spark_bucketing.comparable(column, 'DBT_INTERNAL_SOURCE.') ~ ' <=> ' ~ spark_bucketing.comparable(column, 'DBT_INTERNAL_DEST.')) -%}
  {%- endfor -%}
  {%- set unmerged %}
    select 1
    from {{ spark_bucketing.quote_relation(merge.of.input) }} as DBT_INTERNAL_SOURCE
    left join (
      select {{ spark_bucketing.aligned_list(merge.columns | map(attribute='name') | list, merge) }}, true as `__spark_bucketing_here`
      from {{ spark_bucketing.quote_relation(merge.of.table) }}
      where {{ spark_bucketing.file_name_condition(spark_bucketing.candidate_files(merge)) }}
    ) as DBT_INTERNAL_DEST
      on {{ spark_bucketing.merge_condition(merge) }}
    where case when DBT_INTERNAL_SOURCE.`__spark_bucketing_delete` then DBT_INTERNAL_DEST.`__spark_bucketing_here` is not null
      else DBT_INTERNAL_DEST.`__spark_bucketing_here` is null or not ({{ same | join(' and ') or 'true' }}) end
    limit 1
  {%- endset -%}
  {{ return(run_query(unmerged).rows | length == 0) }}
{%- endmacro %}


{% macro raise_repeated_key(merge, example) -%}
  {%- set keys = spark_bucketing.quote_columns(merge.unique_key) -%}
  {%- set repeated = run_query('select to_json(struct(' ~ keys ~ ')) from ' ~ spark_bucketing.quote_relation(merge.of.input) ~ ' where '
      ~ spark_bucketing.quote_columns(merge.unique_key, '%s is not null').replace(', ', ' and ') ~ ' group by ' ~ keys ~ ' having count(*) > 1 limit 1').rows -%}
  {% do spark_bucketing.drop_tables([merge.of.tmp, merge.of.files, merge.of.input]) %}
  {%- if repeated | length -%}
    {% do spark_bucketing.raise_config_error('unique_key', merge.unique_key | join(', ') ~ ', with several new rows of the key ' ~ repeated[0][0] ~ ' (the table is unchanged)',
        'at most one new row of each key', 'keep one row per key in the model, e.g. with row_number()') %}
  {%- endif -%}
  {% do spark_bucketing.raise_config_error('unique_key',
      merge.unique_key | join(', ') ~ ', with several rows of the table for the new row of the key ' ~ example ~ ' (the table is unchanged)',
      'at most one row per key in the table', 'use another unique_key, or remove the duplicates with dbt run --full-refresh') %}
{%- endmacro %}
