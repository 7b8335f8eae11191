{#-
  Raises an error for a directory without a table. If the metastore crashes between moving the directory and committing the rename, the
  rows have one name and the table has another. Spark would then read the table as empty, without an error.

  table: relation that exists
  stray: relation that does not exist, but whose directory does
-#}
{% macro raise_interrupted_rename(table, stray) -%}
  {% do exceptions.raise_compiler_error("Model '" ~ model.name ~ "': an earlier run crashed while it renamed a table. This run changed nothing.\n"
      ~ '  found:    a directory ' ~ stray.identifier ~ ' without a table, and the table ' ~ table ~ '\n  expected: a directory with the name of its table\n'
      ~ '  instead:  if the table is empty, its rows are in that directory; move the files to the directory ' ~ table.identifier
      ~ ' of the same schema. Otherwise, delete the directory. Then run the model again.') %}
{%- endmacro %}
