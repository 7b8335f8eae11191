{#-
  What tells the files that are about to be written below a directory from those that are there, as {since, writes}.
    since   microseconds since 1970; the minutes are for clocks that differ between here, the driver and the storage
    writes  ids of the writes since then: they may be of another bucket spec, or of none
-#}
{% macro before_write(location) -%}
  {%- set since = (modules.datetime.datetime.now().timestamp() - 600) | int * 1000000 -%}
  {%- set found = run_query('select distinct ' ~ spark_bucketing.write_of_path('path') ~ ' from (' ~ spark_bucketing.directory_files_sql(location, since) ~ ')') -%}
  {{ return({'since': since, 'writes': ([''] + found.columns[0].values() | map('default', '', true) | list) | unique | list}) }}
{%- endmacro %}


{#- SQL for the id that a write of Spark has in the names of its files; empty for other names. -#}
{% macro write_of_path(path) -%}
  {{ return('regexp_extract(' ~ path ~ ", '([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})[^/]*$', 1)") }}
{%- endmacro %}
