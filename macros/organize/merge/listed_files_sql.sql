{#-
  SQL for the files of an organized table by the function file_statistics(), with the names of a plan:
    file    its path as in _metadata.file_path: files of several partitions may have the same last names
    bytes, modified, rows, checksum   as there
    p0, p1, ...         values of file_partition_columns()
    lower, upper        of the ordering column; NULL in a file of NULLs. Where the map's timestamps are in milliseconds, a value may be later
    is_known            whether the map has one row about it: of another, nobody knows what is in it
    range_number     among those of its partition, in their order, from 1 on; -2 for NULLs, and -1 where it is not known
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


{#- SQL for rows about files, which are few, in one task: windows and groups of them need no shuffle, which would take longer than they do. -#}
{% macro single_task(rows) -%}
  select /*+ coalesce(1) */ * from {{ rows }}
{%- endmacro %}


{#-
  The names of files that a query lists, as {names, all}, by which Spark leaves out others when it plans a scan; no names where these
  are more than half of the table's. A file of another folder may have the same name: who needs just these files joins them.

  listed: SQL of a table with a column `file`
-#}
{% macro file_name_list(listed, files) -%}
  {%- set listed = listed if listed is string else spark_bucketing.quote_relation(listed) -%}
  {%- set all = run_query('select count(distinct file) from ' ~ spark_bucketing.quote_relation(files)).rows[0][0] | int -%}
  {%- set found = run_query("select distinct substring_index(file, '/', -1) from " ~ listed ~ ' where file is not null limit ' ~ (all // 2 + 1)).columns[0].values() | list -%}
  {{ return({'names': none if found | length > all // 2 and all > 1 else found, 'all': all}) }}
{%- endmacro %}


{#- Condition on a scan of the table: rows of these files. -#}
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
