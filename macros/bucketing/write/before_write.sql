{#-
  What tells the files that are about to be written from those that are there, as {since, writes, existing}.
    since     microseconds since 1970; the minutes are for clocks that differ between here, the driver and the storage
    writes    ids of the writes since then, where the table's partitions have specs of their own: those of an earlier run
              may have been written a minute ago, by another spec
    existing  table_layout() of the table
-#}
{% macro before_write(relation) -%}
  {%- set since = (modules.datetime.datetime.now().timestamp() - 600) | int * 1000000 -%}
  {%- set existing = spark_bucketing.table_layout(relation) -%}
  {%- set writes = [] -%}
  {%- if existing.evolved -%}
    {%- set recent -%}
      select distinct {{ spark_bucketing.write_of_path('path') }} from ({{ spark_bucketing.files_below_sql(existing.location, since) }})
    {%- endset -%}
    {%- for row in run_query(recent).rows -%}
      {%- do writes.append(row[0] or '') -%}
    {%- endfor -%}
  {%- endif -%}
  {{ return({'since': since, 'writes': writes, 'existing': existing}) }}
{%- endmacro %}
