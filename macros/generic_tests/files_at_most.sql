{#- Returns the partitions that have more than `n` files. With per_partition=false, returns the whole table if it has more than `n` files. -#}
{% test files_at_most(model, n, per_partition=true) %}
  {%- if execute and (n is not integer or n is boolean or n < 1) -%}
    {% do spark_bucketing.raise_argument_error('files_at_most', 'n', n, 'an integer of 1 or more', 'n: 10') %}
  {%- endif -%}
  {%- call(tested) spark_bucketing.files_test_sql(model, bucketed=false) -%}
    {%- set whole = spark_bucketing.string_literal(tested.layout.location) -%}
    select *
    from (
      select {{ spark_bucketing.directory_of_file('path') if per_partition else whole }} as directory, count(*) as files
      from ({{ spark_bucketing.table_files_sql(model, tested.layout) }})
      group by 1
      having count(*) > {{ n }}
      order by files desc, directory
      limit 1000
    )
  {%- endcall -%}
{% endtest %}
