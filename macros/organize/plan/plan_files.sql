{#-
  Writes a plan table that determines how many files each partition gets. Returns a dict {relation, rows, partitions, files, longest}.

  In this plan, a partition is a set of rows that have equal values in file_partition_columns(). `longest` is the largest number of files in one
  partition.

  With `range_by`, range_plan_sql() defines the plan table. Otherwise, each input file is sorted by partition, so that the rows of a partition are
  contiguous in the file. The plan table then has one row for each partition in each input file:
    p0, p1, ...   values of the partition columns
    file          name of the input file
    shift         offset that turns the row index in the file into a row number in the partition, from 0 to rows - 1
    rows, files   number of rows and number of files of the partition
    first_task    total number of files of the preceding partitions
  The position of a row decides its file, so duplicate rows are distributed evenly, too. Only totals reach the driver.

  input: relation, from load_input()
  rows_per_file: int, from rows_per_file(), or none if the config sets the number of files
-#}
{% macro plan_files(relation, input, layout, rows_per_file) -%}
  {%- set boundaries = spark_bucketing.range_boundaries_sql(spark_bucketing.range_boundaries_table(layout), spark_bucketing.extension_enabled())
      if layout.range_boundaries_from else none -%}
  {%- set query = spark_bucketing.range_plan_sql(input, layout, rows_per_file, boundaries) if layout.range_by
      else spark_bucketing.file_plan_sql(input, layout, rows_per_file) -%}
  {%- set plan = spark_bucketing.intermediate_relation(relation, 'plan') -%}
  {% do spark_bucketing.drop_relation_with_files(plan) %}
  {% do spark_bucketing.execute_sql('create table ' ~ spark_bucketing.quote_relation(plan) ~ ' using parquet as ' ~ query) %}
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


{#- Returns the columns that have only one value in each file: the partition columns and the implicit partition columns. -#}
{% macro file_partition_columns(layout) -%}
  {{ return(layout.partition_by + layout.implicit_partition_by) }}
{%- endmacro %}


{#- Returns the names of file_partition_columns() in a plan table. -#}
{% macro partition_aliases(layout) -%}
  {%- set names = [] -%}
  {%- for name in spark_bucketing.file_partition_columns(layout) -%}
    {%- do names.append('p' ~ loop.index0) -%}
  {%- endfor -%}
  {{ return(names) }}
{%- endmacro %}


{#- Returns a select list of file_partition_columns(), with the names that the columns have in a plan table. A comma follows each column. -#}
{% macro partition_select_list(layout) -%}
  {%- set values = [] -%}
  {%- for name in spark_bucketing.file_partition_columns(layout) -%}
    {%- do values.append(spark_bucketing.quote_identifier(name) ~ ' as p' ~ loop.index0 ~ ', ') -%}
  {%- endfor -%}
  {{ return(values | join) }}
{%- endmacro %}


{#- Returns SQL for the number of files in a partition that has `rows` of the table's `all_rows` rows: at least one, and at most one per row. -#}
{% macro files_of_partition(layout, rows_per_file) -%}
  {%- set file_count = layout.file_count -%}
  {%- if rows_per_file -%}
    {%- set files = '(rows + ' ~ (rows_per_file - 1) ~ ') div ' ~ rows_per_file -%}
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
    {% do spark_bucketing.raise_config_error(setting, layout.file_count.value ~ ', which results in ' ~ '{:,}'.format(plan.files) ~ ' files for ' ~ '{:,}'.format(plan.rows)
        ~ ' rows in ' ~ '{:,}'.format(plan.partitions) ~ ' partition(s)' ~ (', and scale_factor=' ~ layout.scale_factor if layout.scale_factor != 1),
        'at most ' ~ '{:,}'.format(spark_bucketing.max_num_files()) ~ ' write tasks', 'write larger files, or use a coarser `partition_by`') %}
  {%- endif -%}
{%- endmacro %}
