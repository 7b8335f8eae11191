{#-
  Raises when a directory of the backup's name lies there without a table. A process that dies within a rename, after the
  metastore has moved the directory and before it has written so down, leaves the rows there and the table empty, which
  Spark reads without an error. The directory of an external table is never moved.

  existing: table_layout() of the table
-#}
{% macro validate_backup_location(relation, existing, reads) -%}
  {%- set backup = spark_bucketing.sibling(relation, 'backup') -%}
  {%- if backup.identifier | lower in spark_bucketing.taken_locations(reads) and not existing.external -%}
    {% do exceptions.raise_compiler_error("Model '" ~ model.name ~ "': a run died while it renamed " ~ relation ~ ', and a directory ' ~ backup.identifier
        ~ ' without a table is beside the directory of the table. If the table has lost its rows, they are there: move its content back. Otherwise delete it.') %}
  {%- endif -%}
{%- endmacro %}
