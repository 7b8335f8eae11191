{#-
  Query for the rows of the table after MERGE: matched rows take the update columns from the new ones, all others stay; unmatched
  new ones are inserted. Keys compare with =, so that NULL matches nothing, as in MERGE INTO, which also refuses several new
  rows for one of the table.

  rows: SQL of the table, or of a query in parentheses for its rows
  new_rows: the same for the rows of this run
  kept: condition on the table's rows that take part (its touched partitions)
-#}
{% macro merged_rows(rows, new_rows, columns, merge, kept) -%}
  {%- set updates = [] -%}
  {%- for column in columns -%}
    {%- if (not merge.update_columns or column.name | lower in merge.update_columns | map('lower') | list)
        and column.name | lower not in merge.exclude_columns | map('lower') | list -%}
      {%- do updates.append(column.name) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- set ambiguous = spark_bucketing.ambiguous_merge(merge, '{row}') -%}
  {%- set row = 'to_json(struct(' ~ spark_bucketing.quote_columns(columns | map(attribute='name') | list, 'DBT_INTERNAL_DEST.%s') ~ '))' -%}
  (
    select
    {%- for column in columns %}
      {%- set name = spark_bucketing.quote_identifier(column.name) %}
      if(DBT_INTERNAL_SOURCE.`__dbt_copies` is not null
        {{- '' if column.name in updates else ' and DBT_INTERNAL_DEST.`__dbt_here` is null' -}}
        , DBT_INTERNAL_SOURCE.{{ name }}, DBT_INTERNAL_DEST.{{ name }}) as {{ name }}{{ ',' if not loop.last }}
    {%- endfor %}
    from (select *, true as `__dbt_here` from {{ rows }} where {{ kept }}) as DBT_INTERNAL_DEST
    full outer join (
      select *, count(*) over (partition by {{ spark_bucketing.quote_columns(merge.unique_key) }}) as `__dbt_copies` from {{ new_rows }}
    ) as DBT_INTERNAL_SOURCE
      on {{ spark_bucketing.merge_condition(merge) }}
    {#- With predicates, not all rows of a key match: validate_merge() has counted those that do. #}
    where if(
      {{ 'false' if merge.predicates else 'true' }} and DBT_INTERNAL_DEST.`__dbt_here` and DBT_INTERNAL_SOURCE.`__dbt_copies` > 1,
      raise_error(replace({{ spark_bucketing.string_literal(ambiguous) }}, '{row}', {{ row }})) is null,
      true
    )
  )
{%- endmacro %}
