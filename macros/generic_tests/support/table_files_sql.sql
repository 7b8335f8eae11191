{#-
  Returns a query that lists the files of a table. The columns are `path`, in the notation of input_file_name(), and `bytes`.

  A scan of the table does not return files without rows. Therefore, this query lists files with the format `binaryFile`, without reading their
  contents:
    no partitions, no `where`   all files in the table's location
    otherwise                   all files in directories that contain a selected row. For partitions outside the table's location, the query returns
                                only files with rows, with NULL as `bytes`
  As a result, leftover files of a dropped partition do not count. Zero-byte files do not count either. Hive writes them for empty buckets, and Spark
  never opens them.
-#}
{% macro table_files_sql(tested, layout) -%}
  {%- if tested is not string and not layout.partition_by -%}
    select input_file_name() as path, length as bytes from binaryFile.{{ spark_bucketing.quote_identifier(layout.location) }}
  {%- else -%}
    {%- set directory = "regexp_extract(path, '^(.*)/[^/]*$', 1)" -%}
    with files_with_rows as (
      {#- This scan reads no columns. -#}
      select distinct input_file_name() as path from {{ spark_bucketing.tested_rows(tested) }}
    )
    select path, max(bytes) as bytes
    from (
      select path, cast(null as bigint) as bytes from files_with_rows
      union all
      select path, bytes
      from ({{ spark_bucketing.directory_files_sql(layout.location) }})
      where {{ directory }} in (select {{ directory }} from files_with_rows)
    )
    group by path
  {%- endif -%}
{%- endmacro %}
