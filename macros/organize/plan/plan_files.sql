{#-
  Counts the input's rows and writes down which files its partitions get, in a table; returns {relation, rows, partitions, files, longest}.

  A partition is a set of rows with equal values of the partition and implicit partition columns, see file_partition_columns(). `longest` is the most files of one.

  With `range_by` the table is that of range_plan_sql(). Otherwise the input's files are sorted by the partition, so that the rows of a
  partition in one of them are a run: they follow each other. The table has a row for each run:
    p0, p1, ...   the partition's values
    file          name of the input's file
    shift         added to a row's index in that file it makes the row's number in the partition, from 0 to rows - 1
    rows, files   of the partition
    first_task    files of the partitions before it
  So a row's file follows from where the row lies, and duplicates are spread like any others. Nothing but sums reaches the driver.

  input: from load_input()
  rows_per_file: from rows_per_file(); none where the number of files is stated
-#}
{% macro plan_files(relation, input, layout, rows_per_file) -%}
  {{ return(spark_bucketing.write_plan(relation, spark_bucketing.numbered_files_sql(spark_bucketing.range_plan_sql(input, layout, rows_per_file), layout)
      if layout.range_by else spark_bucketing.file_plan_sql(input, layout, rows_per_file), layout)) }}
{%- endmacro %}


{#- Writes the plan of a query beside a table, and returns what plan_files() does. -#}
{% macro write_plan(relation, query, layout) -%}
  {%- set plan = spark_bucketing.intermediate_relation(relation, 'plan') -%}
  {% do spark_bucketing.write_intermediate_relation(plan, query) %}
  {%- set sums = 'select coalesce(sum(files), 0), count(*), coalesce(sum(rows), 0), coalesce(max(files), 0) from ' ~ spark_bucketing.quote_relation(plan) ~ ' where is_first' -%}
  {%- set row = run_query(sums).rows[0] -%}
  {%- set found = {'relation': plan, 'files': row[0] | int, 'partitions': row[1] | int, 'rows': row[2] | int, 'longest': row[3] | int} -%}
  {% do spark_bucketing.validate_plan(found, layout) %}
  {{ return(found) }}
{%- endmacro %}


{% macro file_plan_sql(input, layout, rows_per_file) -%}
  {%- set columns = spark_bucketing.partition_aliases(layout) -%}
  {%- set partition = columns | join(', ') -%}
  {%- set of_partition = 'partition by ' ~ partition if columns -%}
  select *, sum(if(is_first, files, 0)) over (order by {{ (columns + ['file']) | join(', ') }} rows unbounded preceding) - files as first_task
  from (
    select *, {{ spark_bucketing.files_of_partition(layout, rows_per_file) }} as files
    from (
      select
        *,
        sum(run_rows) over ({{ of_partition }}) as rows,
        sum(run_rows) over () as all_rows,
        sum(run_rows) over ({{ of_partition }} order by file rows unbounded preceding) - run_rows - first_row as shift,
        row_number() over ({{ of_partition }} order by file) = 1 as is_first
      from (
        select {{ partition ~ ', ' if columns }}file, count(*) as run_rows, min(position) as first_row
        from (
          select {{ spark_bucketing.partition_select_list(layout) }}_metadata.file_name as file, _metadata.row_index as position
          from {{ spark_bucketing.quote_relation(input) }}
        )
        group by {{ partition ~ ', ' if columns }}file
      )
    )
  )
{%- endmacro %}


{#- Columns of whose values a file has one each: the partitions that readers see as folders, and those within. -#}
{% macro file_partition_columns(layout) -%}
  {{ return(layout.partition_by + layout.implicit_partition_by) }}
{%- endmacro %}


{#- What file_partition_columns() are called in a plan. -#}
{% macro partition_aliases(layout) -%}
  {%- set names = [] -%}
  {%- for name in spark_bucketing.file_partition_columns(layout) -%}
    {%- do names.append('p' ~ loop.index0) -%}
  {%- endfor -%}
  {{ return(names) }}
{%- endmacro %}


{#- A select list of file_partition_columns() by these names, with a comma behind each; rows: of which relation they are, with a dot. -#}
{% macro partition_select_list(layout, rows='') -%}
  {%- set values = [] -%}
  {%- for name in spark_bucketing.file_partition_columns(layout) -%}
    {%- do values.append(rows ~ spark_bucketing.quote_identifier(name) ~ ' as p' ~ loop.index0 ~ ', ') -%}
  {%- endfor -%}
  {{ return(values | join) }}
{%- endmacro %}


{#- SQL for the number of files of a partition of `rows` rows in a table of `all_rows`: at least one, and no more than there are rows. -#}
{% macro files_of_partition(layout, rows_per_file) -%}
  {%- set file_count = layout.file_count -%}
  {%- if rows_per_file -%}
    {%- set files = spark_bucketing.files_of_bin('rows', spark_bucketing.partition_aliases(layout) | last, rows_per_file) if layout.of_bins
        else '(rows + ' ~ (rows_per_file - 1) ~ ') div ' ~ rows_per_file -%}
  {%- elif file_count.setting == 'num_files' -%}
    {%- set files = 'cast(round(' ~ file_count.value ~ 'D * rows / greatest(1, all_rows)) as bigint)' -%}
  {%- else -%}
    {%- set files = 'cast(' ~ file_count.value ~ ' as bigint)' -%}
  {%- endif -%}
  {{ return('least(rows, greatest(1, ' ~ files ~ '))') }}
{%- endmacro %}


{% macro validate_plan(plan, layout) -%}
  {%- set tasks = plan.files * layout.scale_factor -%}
  {%- if tasks > spark_bucketing.max_num_files() -%}
    {%- set setting = layout.file_count.setting -%}
    {% do spark_bucketing.raise_config_error(setting, layout.file_count.value ~ ', which makes ' ~ '{:,}'.format(plan.files) ~ ' files of ' ~ '{:,}'.format(plan.rows)
        ~ ' rows in ' ~ '{:,}'.format(plan.partitions) ~ ' partition(s)' ~ (', and scale_factor=' ~ layout.scale_factor if layout.scale_factor != 1),
        'no more than ' ~ '{:,}'.format(spark_bucketing.max_num_files()) ~ ' tasks', 'larger files, or a coarser `partition_by`') %}
  {%- endif -%}
{%- endmacro %}


{#- SQL of the input, a table or already SQL. -#}
{% macro rows_of_input(input) -%}
  {{ return(input if input is string else spark_bucketing.quote_relation(input)) }}
{%- endmacro %}
