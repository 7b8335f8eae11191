{% macro raise_column_error(found, expected, instead) -%}
  {% do exceptions.raise_compiler_error(spark_bucketing.error_message('Model `' ~ model.name ~ '` has an invalid column.', found, expected, instead)) %}
{%- endmacro %}
