{#-
  Returns SQL for the files of an organized table, from the function file_statistics():
    file                path as in _metadata.file_path, because files of several partitions can have the same name
    bytes, modified, rows, checksum   as in file_statistics()
    p0, p1, ...         values of file_partition_columns()
    lower, upper        minimum and maximum of the range column; NULL in a file of NULLs. Statistics with timestamps in milliseconds can be
                        lower than the true maximum
    is_known            whether the file has exactly one row of statistics; otherwise its content is unknown
    range_number        position of its range in the partition, from 1; -2 for NULLs, -1 for unknown content
-#}
{% macro listed_files_sql(relation, layout) -%}
  {%- set value = spark_bucketing.quote_columns(layout.range_by) -%}
  {%- set groups = spark_bucketing.partition_aliases(layout) -%}
  select
    file, bytes, modified, rows, checksum, {{ groups | join(', ') ~ ', ' if groups }}lower, upper, is_known,
    case
      when not is_known then -1
      when lower is null then -2
      else dense_rank() over (partition by {{ (groups + ['is_known', 'lower is null']) | join(', ') }} order by lower)
    end as range_number
  from (
    select
      path as file, bytes, modified, rows, checksum,
      {%- for name in spark_bucketing.file_partition_columns(layout) %}
      {{ 'partition' if loop.index0 < layout.partition_by | length else 'implicit_partition' }}.{{ spark_bucketing.quote_identifier(name) }} as p{{ loop.index0 }},
      {%- endfor %}
      lower.{{ value }} as lower,
      upper.{{ value }} as upper,
      rows is not null and count(*) over (partition by path) = 1 as is_known,
      row_number() over (partition by path order by rows) as copy
    from ({{ spark_bucketing.single_task('file_statistics(' ~ spark_bucketing.string_literal(spark_bucketing.quote_relation(relation)) ~ ')') }})
  )
  where copy = 1
{%- endmacro %}


{#-
  Returns SQL that reads rows in a single task, so that window functions and aggregates need no shuffle. There are only a few rows, one per
  file.
-#}
{% macro single_task(rows) -%}
  select /*+ coalesce(1) */ * from {{ rows }}
{%- endmacro %}


{#-
  Returns the names of the listed files, for pruning at planning time, as {names, all}. `all` is the total number of files.

  `names` is none if more than half of the table's files are listed. Files in other directories can have the same names, so a query that
  needs exactly the listed files must also join them.

  listed: relation or string, SQL of a table with a column `file`
  files: relation of all files, from listed_files_sql()
-#}
{% macro file_name_list(listed, files) -%}
  {%- set listed = listed if listed is string else spark_bucketing.quote_relation(listed) -%}
  {%- set all = run_query('select count(distinct file) from ' ~ spark_bucketing.quote_relation(files)).rows[0][0] | int -%}
  {%- set found = run_query("select distinct substring_index(file, '/', -1) from " ~ listed ~ ' where file is not null limit ' ~ (all // 2 + 1)).columns[0].values() | list -%}
  {{ return({'names': none if found | length > all // 2 and all > 1 else found, 'all': all}) }}
{%- endmacro %}


{#- Returns a condition on a scan of the table that selects rows of these files. -#}
{% macro file_name_condition(names) -%}
  {%- if names.names is none -%}
    {{ return('true') }}
  {%- elif not names.names -%}
    {{ return('false') }}
  {%- endif -%}
  {%- set literals = [] -%}
  {%- for name in names.names -%}
    {%- do literals.append(spark_bucketing.string_literal(name)) -%}
  {%- endfor -%}
  {{ return('_metadata.file_name in (' ~ literals | join(', ') ~ ')') }}
{%- endmacro %}
