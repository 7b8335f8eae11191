{#-
  Writes the file statistics of all files of a table, or only of recently written files. The statistics go to a directory in the table's location that
  readers of the table ignore; see docs/explanation/file-layout.md. The statistics have one row per file:
    file               the end of the file's path, encoded as in _metadata.file_path: the directories of its partition, and its name
    bytes, modified    size and modification time of the file, which identify its contents
    partition, implicit_partition   structs with the values of these columns; missing if there are no such columns
    lower, upper       structs with the minimum and maximum of the range column; missing if there is no range column
    nulls, rows        number of NULLs in the range column, and number of rows
    checksum           sum of the hashes of the rows

  Each write adds a directory, and does not change the existing directories. Readers ignore the statistics of deleted files.

  columns: list of {name, type}
  since: int, time in microseconds since 1970, to skip older files, or none for all files
-#}
{% macro write_file_statistics(relation, columns, layout, since=none) -%}
  {%- if layout.range_by or layout.implicit_partition_by -%}
    {%- set location = spark_bucketing.table_location(relation, layout) ~ '/_file_statistics/' ~ modules.datetime.datetime.now().strftime('%Y%m%d%H%M%S%f') -%}
    {% do spark_bucketing.execute_sql('insert overwrite directory ' ~ spark_bucketing.string_literal(location) ~ ' using parquet '
        ~ spark_bucketing.file_statistics_sql(relation, columns, layout, since)) %}
  {%- endif -%}
{%- endmacro %}


{% macro file_statistics_sql(relation, columns, layout, since) -%}
  {%- set groups = spark_bucketing.file_partition_columns(layout) -%}
  {%- set value = spark_bucketing.quote_columns(layout.range_by) -%}
  select /*+ coalesce(1) */ *
  from (
    select
      {{ spark_bucketing.last_names_of_file(layout) }} as file,
      max(_metadata.file_size) as bytes,
      max(_metadata.file_modification_time) as modified,
      {{ spark_bucketing.struct_of(layout.partition_by, 'partition') ~ spark_bucketing.struct_of(layout.implicit_partition_by, 'implicit_partition') }}
      {%- if layout.range_by %}
      struct(min({{ value }}) as {{ value }}) as lower,
      struct(max({{ value }}) as {{ value }}) as upper,
      count(*) - count({{ value }}) as nulls,
      {%- endif %}
      count(*) as rows,
      sum(cast(xxhash64({{ spark_bucketing.hashed_columns(columns, layout) }}) as decimal(38, 0))) as checksum
    from {{ spark_bucketing.quote_relation(relation) }}
    {%- if since is not none %}
    where _metadata.file_modification_time >= timestamp_micros({{ since }})
    {%- endif %}
    group by _metadata.file_path{{ ', ' ~ spark_bucketing.quote_columns(groups) if groups }}
  )
{%- endmacro %}


{#- Returns SQL for the end of a file's path, which consists of the directories of its partition and of its name. -#}
{% macro last_names_of_file(layout) -%}
  {{ return("substring_index(_metadata.file_path, '/', " ~ (-1 - layout.partition_by | length) ~ ')') }}
{%- endmacro %}


{% macro struct_of(names, alias) -%}
  {{ return('struct(' ~ spark_bucketing.quote_columns(names) ~ ') as ' ~ alias ~ ', ' if names else '') }}
{%- endmacro %}


{#-
  Returns the arguments with which xxhash64 hashes a row, in the order of the table's columns. Spark cannot hash maps, so the macro casts them to
  strings. NULL does not change a hash. Therefore, a column that is added later does not change the hashes of existing rows.
-#}
{% macro hashed_columns(columns, layout) -%}
  {%- set hashed = [] -%}
  {%- for column in spark_bucketing.order_columns(columns, layout.partition_by) -%}
    {%- set name = spark_bucketing.quote_identifier(column.name) -%}
    {%- do hashed.append('cast(' ~ name ~ ' as string)' if modules.re.search('map<|variant', column.type | lower) else name) -%}
  {%- endfor -%}
  {{ return(hashed | join(', ')) }}
{%- endmacro %}
