{#-
  Returns a query that counts, in each file, the rows that sort before the previous row. The columns are file, file_rows, and `unsorted`, an array
  that contains the count for each of the orders.

  rows: string, SQL of a relation or subquery
  orders: list of SQL structs to compare the rows by
-#}
{% macro unsorted_rows_sql(rows, orders) -%}
  select
    file,
    count(*) as file_rows,
    array({% for _ in orders %}count_if(key_{{ loop.index }} < before_{{ loop.index }}){{ ', ' if not loop.last }}{% endfor %}) as unsorted
  from (
    select
      *,
      {%- for _ in orders %}
      lag(key_{{ loop.index }}) over (partition by file order by split_start, row_number) as before_{{ loop.index }}{{ ',' if not loop.last }}
      {%- endfor %}
    from (
      select
        input_file_name() as file,
        input_file_block_start() as split_start,
        monotonically_increasing_id() as row_number,
        {%- for order in orders %}
        {{ order }} as key_{{ loop.index }}{{ ',' if not loop.last }}
        {%- endfor %}
      from {{ rows }}
    )
  )
  group by file
{%- endmacro %}
