{#-
  Returns a query for the rows of the table after a merge: it updates matched rows, inserts unmatched new rows and keeps all others.

  As in MERGE INTO, keys compare with =, so NULL matches nothing, and several new rows that match one row are an error.

  rows: string, SQL of the table, or of a query in parentheses for its rows
  new_rows: string, the same for the rows of this run
  kept: string, SQL condition that selects the table's rows in the touched partitions
-#}
{% macro merged_rows(rows, new_rows, columns, merge, kept) -%}
  {%- set updates = spark_bucketing.updated_columns(merge, columns) -%}
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
    {#- With predicates, not all rows of a key match, so validate_merge() counts the matches instead. #}
    where if(
      {{ 'false' if merge.predicates else 'true' }} and DBT_INTERNAL_DEST.`__dbt_here` and DBT_INTERNAL_SOURCE.`__dbt_copies` > 1,
      raise_error(replace({{ spark_bucketing.string_literal(ambiguous) }}, '{row}', {{ row }})) is null,
      true
    )
  )
{%- endmacro %}
