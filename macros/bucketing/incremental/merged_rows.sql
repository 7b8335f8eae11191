{#-
  Query for the rows of the table after MERGE: matched rows take the update columns from the input, all others stay;
  unmatched input is inserted. Keys compare with =, so that NULL matches nothing, as in MERGE INTO.

  rows: SQL of the table, or of a query in parentheses for its rows
  kept: condition on the table's rows that take part (its touched partitions)
-#}
{% macro merged_rows(rows, input, columns, merge, kept) -%}
  {%- set updates = [] -%}
  {%- for column in columns -%}
    {%- if (not merge.update_columns or column.name | lower in merge.update_columns | map('lower') | list)
        and column.name | lower not in merge.exclude_columns | map('lower') | list -%}
      {%- do updates.append(column.name) -%}
    {%- endif -%}
  {%- endfor -%}
  (
    select
    {%- for column in columns %}
      {%- set name = spark_bucketing.quote_identifier(column.name) %}
      if(DBT_INTERNAL_SOURCE.`__dbt_here`
        {{- '' if column.name in updates else ' and DBT_INTERNAL_DEST.`__dbt_here` is null' -}}
        , DBT_INTERNAL_SOURCE.{{ name }}, DBT_INTERNAL_DEST.{{ name }}) as {{ name }}{{ ',' if not loop.last }}
    {%- endfor %}
    from (select *, true as `__dbt_here` from {{ rows }} where {{ kept }}) as DBT_INTERNAL_DEST
    full outer join (select *, true as `__dbt_here` from {{ spark_bucketing.quote_relation(input) }}) as DBT_INTERNAL_SOURCE
      on {{ spark_bucketing.merge_condition(merge) }}
  )
{%- endmacro %}
