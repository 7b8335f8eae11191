{#-
  Returns a dict {since, writes}, which identifies the files that are in a directory before a write.
    since   a time in microseconds since 1970; it is 10 minutes in the past, because the clocks of client, driver and storage may differ
    writes  ids of the writes since then, whose files may have another bucket spec or none
-#}
{% macro before_write(location) -%}
  {%- set since = (modules.datetime.datetime.now().timestamp() - 600) | int * 1000000 -%}
  {%- set found = run_query('select distinct ' ~ spark_bucketing.write_of_path('path') ~ ' from (' ~ spark_bucketing.directory_files_sql(location, since) ~ ')') -%}
  {{ return({'since': since, 'writes': ([''] + found.columns[0].values() | map('default', '', true) | list) | unique | list}) }}
{%- endmacro %}


{#-
  Returns SQL that extracts the id of a write from a file name. Spark includes the id in the names of all files of the write. For other file names,
  the result is empty.
-#}
{% macro write_of_path(path) -%}
  {{ return('regexp_extract(' ~ path ~ ", '([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})[^/]*$', 1)") }}
{%- endmacro %}
