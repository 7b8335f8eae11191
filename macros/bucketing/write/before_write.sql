{#-
  Returns {since, writes}, which identify the files that exist in a directory before a write.
    since   modification time in microseconds since 1970; 10 minutes in the past, because the clocks of client, driver and storage differ
    writes  ids of the writes since then, which may have another bucket spec or no bucket spec
-#}
{% macro before_write(location) -%}
  {%- set since = (modules.datetime.datetime.now().timestamp() - 600) | int * 1000000 -%}
  {%- set found = run_query('select distinct ' ~ spark_bucketing.write_of_path('path') ~ ' from (' ~ spark_bucketing.directory_files_sql(location, since) ~ ')') -%}
  {{ return({'since': since, 'writes': ([''] + found.columns[0].values() | map('default', '', true) | list) | unique | list}) }}
{%- endmacro %}


{#- Returns SQL for the id of a write, which Spark includes in the names of all its files; empty for other file names. -#}
{% macro write_of_path(path) -%}
  {{ return('regexp_extract(' ~ path ~ ", '([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})[^/]*$', 1)") }}
{%- endmacro %}
