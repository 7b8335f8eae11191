{#-
  Inserts the rows of the input. The file strategy determines how Spark distributes them over tasks. With `exact`, a separate task writes each planned
  file.

  Adaptive execution does not coalesce the partitions of a REPARTITION with an explicit number of partitions, so it does not reduce the number of
  files.

  insert: string, from insert_clause()
  input: relation from load_input(), sorted by the partition columns
  plan: dict, from plan_files()
-#}
{% macro insert_organized(insert, input, plan, columns, layout) -%}
  {%- set names = spark_bucketing.order_columns(columns, layout.partition_by) | map(attribute='name') | list -%}
  {%- set spread = spark_bucketing.write_distribution(plan, layout) -%}
  {% call statement('main') -%}
    {{ insert }}
    select /*+ {{ spread.hint }} */ {{ spark_bucketing.quote_columns(names) }}
    {%- if spread.key %}
    from ({{ spark_bucketing.placed_rows_sql(input, plan, layout, spread.key) }})
    {%- else %}
    from {{ spark_bucketing.quote_relation(input) }}
    {%- endif %}
    {%- if layout.range_by %}
    sort by {{ spark_bucketing.quote_columns(layout.partition_by + layout.range_by) }}
    {%- endif %}
  {%- endcall %}
{%- endmacro %}


{#-
  Returns a dict {hint, key}, which defines how a strategy distributes rows.

  `key` is a SQL expression over the columns of placed_rows_sql(). The hint refers to it as `__spark_bucketing_key`. The key is missing if any task
  may write any row.
-#}
{% macro write_distribution(plan, layout) -%}
  {%- set tasks = [plan.files, 1] | max -%}
  {%- set key = '`__spark_bucketing_key`' -%}
  {%- set file = spark_bucketing.file_of_value('input_rows.' ~ spark_bucketing.quote_identifier(layout.range_by[0]), plan.longest)
      if layout.range_by else spark_bucketing.file_of_row() -%}
  {%- set partition = spark_bucketing.quote_columns(layout.partition_by) -%}
  {%- if layout.file_strategy == 'coalesce' -%}
    {{ return({'hint': 'coalesce(' ~ tasks ~ ')'}) }}
  {%- elif layout.file_strategy == 'repartition' -%}
    {{ return({'hint': 'repartition(' ~ tasks ~ ')'}) }}
  {%- elif layout.file_strategy == 'by_column' -%}
    {{ return({'hint': 'repartition(' ~ tasks ~ ', ' ~ partition ~ ')'}) }}
  {%- elif layout.file_strategy == 'by_column_salted' -%}
    {%- set tasks = [(tasks * layout.scale_factor) | round(0, 'ceil') | int, 1] | max -%}
    {{ return({'hint': 'repartition(' ~ tasks ~ ', ' ~ (partition ~ ', ' if partition) ~ key ~ ')', 'key': file}) }}
  {%- elif layout.file_strategy == 'by_range' -%}
    {#- The key starts with the hash of the partition values, so that each range covers only a few partitions. -#}
    {%- set order = 'struct(' ~ ('hash(' ~ partition ~ ') as h, ' if partition) ~ spark_bucketing.row_number_in_partition() ~ ' as n)' -%}
    {{ return({'hint': 'repartition_by_range(' ~ tasks ~ ', ' ~ key ~ ')', 'key': order}) }}
  {%- endif -%}
  {{ return({
      'hint': 'repartition(' ~ tasks ~ ', ' ~ key ~ ')',
      'key': 'get((' ~ spark_bucketing.shuffle_keys(tasks) ~ '), cast(plan.first_task + ' ~ file ~ ' as int))',
  }) }}
{%- endmacro %}


{#- Returns SQL for the row number of a row in its partition, from 0. A retried task computes the same numbers. -#}
{% macro row_number_in_partition() -%}
  {{ return('(input_rows.`__spark_bucketing_row` + plan.shift)') }}
{%- endmacro %}


{#- Returns SQL for the number of a row's file within its partition. The first file has number 0. The row counts of a partition's files differ by at most one. -#}
{% macro file_of_row() -%}
  {{ return(spark_bucketing.row_number_in_partition() ~ ' * plan.files div plan.rows') }}
{%- endmacro %}


{#-
  Returns a query that adds a key to the input's rows. The key is a SQL expression over the columns of `input_rows` and `plan`. Because of the left
  join, the query also returns rows for which the plan has no entry.
-#}
{% macro placed_rows_sql(input, plan, layout, key) -%}
  select input_rows.*, {{ key }} as `__spark_bucketing_key`
  from {% if layout.range_by -%}
    {{ spark_bucketing.quote_relation(input) }}
  {%- else -%}
  (
    select *, _metadata.file_name as `__spark_bucketing_file`, _metadata.row_index as `__spark_bucketing_row`
    from {{ spark_bucketing.quote_relation(input) }}
  )
  {%- endif %} as input_rows
  left join {{ spark_bucketing.quote_relation(plan.relation) }} as plan
    on {{ 'true' if layout.range_by else 'input_rows.`__spark_bucketing_file` = plan.file' }}
    {%- for name in spark_bucketing.file_partition_columns(layout) %}
    and input_rows.{{ spark_bucketing.quote_identifier(name) }} <=> plan.p{{ loop.index0 }}
    {%- endfor %}
{%- endmacro %}
