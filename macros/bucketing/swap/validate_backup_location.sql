{#-
  Raises when a directory of the backup's name lies there without a table. A process that dies within a rename, after the
  metastore has moved the directory and before it has written so down, leaves the rows there and the table empty, which
  Spark reads without an error.
-#}
{% macro validate_backup_location(relation) -%}
  {%- set backup = spark_bucketing.sibling(relation, 'backup') -%}
  {%- set message = "Model '" ~ model.name ~ "': a run died while it renamed " ~ relation ~ ', and a directory ' ~ backup.identifier
      ~ ' without a table is beside the directory of the table. If the table has lost its rows, they are there: move its content back. Otherwise delete it.' -%}
  {%- set name = spark_bucketing.quote_relation(backup) -%}
  {% call statement('backup_location', auto_begin=False) -%}
    begin
      declare exit handler for LOCATION_ALREADY_EXISTS
      begin
        select raise_error({{ spark_bucketing.string_literal(message) }});
      end;
      create table {{ name }} (nothing string) stored as textfile;
      drop table {{ name }};
    end
  {%- endcall %}
{%- endmacro %}
