{% macro raise_column_error(found, expected, instead) -%}
  {% do exceptions.raise_compiler_error("Model '" ~ model.name ~ "' has an invalid column.\n  found:    " ~ found ~ '\n  expected: ' ~ expected ~ '\n  instead:  ' ~ instead) %}
{%- endmacro %}
