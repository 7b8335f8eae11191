{#-
  No row of the table is matched by two rows of the input: MERGE INTO refuses that, too.

  rows: from aligned_rows()
  touched: from touched_partitions(), or none
-#}
{% macro validate_merge(rows, input, columns, merge, touched=none) -%}
  {%- set source = spark_bucketing.quote_relation(input) -%}
  {%- if (touched.found if touched else run_query(spark_bucketing.repeated_keys_sql(source, merge) ~ ' limit 1').rows | length > 0) -%}
    {%- set ambiguous -%}
      select first(to_json(struct({{ spark_bucketing.quote_columns(columns | map(attribute='name') | list, 'DBT_INTERNAL_DEST') }}))) from (
        select *, monotonically_increasing_id() as `__dbt_row` from {{ rows }}
      ) as DBT_INTERNAL_DEST
      join {{ source }} as DBT_INTERNAL_SOURCE on {{ spark_bucketing.merge_condition(merge) }}
      group by DBT_INTERNAL_DEST.`__dbt_row` having count(*) > 1 limit 1
    {%- endset -%}
    {%- set found = run_query(ambiguous).rows -%}
    {%- if found | length > 0 -%}
      {% do spark_bucketing.raise_config_error('unique_key', merge.unique_key | join(', ') ~ ', with several new rows for the row ' ~ found[0][0],
          'at most one new row for each row of the table', 'keep one row of each key in the model, e.g. with row_number()') %}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}


{% macro repeated_keys_sql(source, merge) -%}
  {%- set keys = spark_bucketing.quote_columns(merge.unique_key) -%}
  select {{ keys }} from {{ source }} group by {{ keys }} having count(*) > 1
{%- endmacro %}
