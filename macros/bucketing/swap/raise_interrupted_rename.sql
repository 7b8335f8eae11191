{#-
  Raises an error for a directory without a table. If the metastore crashes between moving the directory and committing the rename, the
  rows have one name and the table has another. Spark would then read the table as empty, without an error.

  table: relation that exists
  stray: relation that does not exist, but whose directory does
-#}
{% macro raise_interrupted_rename(table, stray) -%}
  {% do exceptions.raise_compiler_error(spark_bucketing.error_message(
      'Model `' ~ model.name ~ '` cannot be built, because an earlier run crashed while it renamed a table. This run changed nothing.',
      'a directory ' ~ stray.identifier ~ ' without a table, and the table ' ~ table, 'a directory with the name of its table',
      'if the table is empty, its rows are in that directory; move the files to the directory ' ~ table.identifier
      ~ ' of the same schema; otherwise, delete the directory; then run the model again')) %}
{%- endmacro %}
