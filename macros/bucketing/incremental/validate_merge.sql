{#-
  Raises an error if several new rows match one row of the table under predicates. Without predicates, merged_rows() detects this itself.

  rows: string, SQL from aligned_rows()
  new_rows: string, SQL of the table with the rows of this run
-#}
{% macro validate_merge(rows, new_rows, columns, merge) -%}
  {%- set found = run_query(
      'select first(to_json(struct(' ~ spark_bucketing.quote_columns(columns | map(attribute='name') | list, 'DBT_INTERNAL_DEST.%s') ~ ')))'
      ~ ' from (select *, monotonically_increasing_id() as `__dbt_row` from ' ~ rows ~ ') as DBT_INTERNAL_DEST'
      ~ ' join ' ~ new_rows ~ ' as DBT_INTERNAL_SOURCE on ' ~ spark_bucketing.merge_condition(merge)
      ~ ' group by DBT_INTERNAL_DEST.`__dbt_row` having count(*) > 1 limit 1'
  ).rows -%}
  {%- if found | length > 0 -%}
    {% do exceptions.raise_compiler_error(spark_bucketing.ambiguous_merge(merge, found[0][0])) %}
  {%- endif -%}
{%- endmacro %}


{% macro ambiguous_merge(merge, row) -%}
  {{ return(spark_bucketing.config_error('unique_key', merge.unique_key | join(', ') ~ ', with several new rows that match the row ' ~ row,
      'at most one new row for each row of the table', 'keep one row of each key in the model, e.g. with row_number()')) }}
{%- endmacro %}
