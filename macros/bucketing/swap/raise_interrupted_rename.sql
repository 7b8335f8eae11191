{#-
  Says that the directory of a name lies there without a table. A process that crashes within a rename, after the metastore has moved the
  directory and before it has written so down, or has taken that back, leaves the rows under the one name and the table under the other:
  an empty table, which Spark reads without an error.

  table: the relation that is there
  stray: the relation whose directory lies there without it
-#}
{% macro raise_interrupted_rename(table, stray) -%}
  {% do exceptions.raise_compiler_error("Model '" ~ model.name ~ "': a run crashed while a table was renamed, and nothing was changed now.\n"
      ~ '  found:    a directory ' ~ stray.identifier ~ ' without a table, and the table ' ~ table ~ '\n  expected: each directory under the name of its table\n'
      ~ '  instead:  if the table has lost its rows, they are in that directory: move its content into the directory ' ~ table.identifier
      ~ ' beside it. Otherwise delete it. Then run the model again.') %}
{%- endmacro %}
