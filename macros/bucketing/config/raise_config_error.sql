{% macro raise_config_error(setting, found, expected, instead, node=model) -%}
  {% do exceptions.raise_compiler_error(spark_bucketing.config_error(setting, found, expected, instead, node=node)) %}
{%- endmacro %}


{% macro config_error(setting, found, expected, instead, node=model) -%}
  {{ return(spark_bucketing.error_message('Model `' ~ node.name ~ '` has an invalid `' ~ setting ~ '`.', found, expected, instead)) }}
{%- endmacro %}
