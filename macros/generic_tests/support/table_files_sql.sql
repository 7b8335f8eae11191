{#-
  Query for the files that Spark reads the table from, as `path`, spelled as input_file_name() spells them, and `bytes`.

  A query of the table's rows can't see files that hold no rows. So the files are listed, by a scan in the format
  `binaryFile` that selects no content and reads none. What is listed:
    no partitions, no `where`   the files in the table's location
    otherwise                   every file in a directory that a (selected) row comes from, below the location; and of partitions
                                that lie elsewhere the files with rows, whose `bytes` are NULL
  So the leftovers of a dropped partition, which are no part of the table, are not counted. Nor are files of zero bytes:
  Hive writes them for empty buckets, Spark never opens them.
-#}
{% macro table_files_sql(tested, layout) -%}
  {%- if tested is not string and not layout.partition_by -%}
    select input_file_name() as path, length as bytes from binaryFile.{{ spark_bucketing.quote_identifier(layout.location) }}
  {%- else -%}
    {%- set directory = "regexp_extract(path, '^(.*)/[^/]*$', 1)" -%}
    with files_with_rows as (
      {#- Reads row counts, no columns. -#}
      select distinct input_file_name() as path from {{ spark_bucketing.tested_rows(tested) }}
    )
    select path, max(bytes) as bytes
    from (
      select path, cast(null as bigint) as bytes from files_with_rows
      union all
      select path, bytes
      from (select input_file_name() as path, length as bytes from {{ spark_bucketing.files_source(layout.location) }})
      where {{ directory }} in (select {{ directory }} from files_with_rows)
    )
    group by path
  {%- endif -%}
{%- endmacro %}
