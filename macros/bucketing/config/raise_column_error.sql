{% macro raise_column_error(found, expected, instead) -%}
  {% do exceptions.raise_compiler_error("Invalid column in model '" ~ model.name ~ "'.\n  found:    " ~ found ~ '\n  expected: ' ~ expected ~ '\n  instead:  ' ~ instead) %}
{%- endmacro %}
