{#-
  Writes what is in each file of a table, or in each that a write has made, to a folder in the table's location that no reader of the table
  looks into: the file statistics, see docs/explanation/file-layout.md. A row for each file:
    file               its last names: the folders of its partition and its own, as in _metadata.file_path
    bytes, modified    of the file, which tell whether it is the one that this row is about
    partition, implicit_partition   its values of the partition and implicit partition columns, structs of their names; none where there are no such columns
    lower, upper       least and greatest value of the ordering column, structs of its name; none where there is no such column
    nulls, rows        how many rows have no such value, and how many there are
    checksum           sum of the hashes of the rows

  Another write adds a folder of its own and changes none: a row about a file that is gone counts for nothing.

  columns: list of {name, type}
  since: microseconds since 1970: no older files are looked at
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


{#- SQL for the last names of a file's path: the folders of its partition and its own. -#}
{% macro last_names_of_file(layout) -%}
  {{ return("substring_index(_metadata.file_path, '/', " ~ (-1 - layout.partition_by | length) ~ ')') }}
{%- endmacro %}


{% macro struct_of(names, alias) -%}
  {{ return('struct(' ~ spark_bucketing.quote_columns(names) ~ ') as ' ~ alias ~ ', ' if names else '') }}
{%- endmacro %}


{#-
  Columns as xxhash64 takes them, in the order that they have in the table: a map has no hash, and its text is that of its entries in their order.
  NULL leaves a hash as it is, so that a column which the table has been given since changes none.
-#}
{% macro hashed_columns(columns, layout) -%}
  {%- set hashed = [] -%}
  {%- for column in spark_bucketing.order_columns(columns, layout.partition_by) -%}
    {%- do hashed.append(spark_bucketing.comparable(column)) -%}
  {%- endfor -%}
  {{ return(hashed | join(', ')) }}
{%- endmacro %}


{#- SQL for a column as values of any type can be compared; of: which relation it is of, with a dot. -#}
{% macro comparable(column, of='') -%}
  {%- set name = of ~ spark_bucketing.quote_identifier(column.name) -%}
  {{ return('cast(' ~ name ~ ' as string)' if modules.re.search('map<|variant', column.type | lower) else name) }}
{%- endmacro %}


{#- Microseconds since 1970 from which on files are of this run: clocks differ between here and the storage. -#}
{% macro minutes_ago() -%}
  {{ return((modules.datetime.datetime.now().timestamp() - 600) | int * 1000000) }}
{%- endmacro %}
