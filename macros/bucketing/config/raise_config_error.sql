{% macro raise_config_error(setting, found, expected, instead, node=model) -%}
  {% do exceptions.raise_compiler_error(spark_bucketing.config_error(setting, found, expected, instead, node=node)) %}
{%- endmacro %}


{% macro config_error(setting, found, expected, instead, node=model) -%}
  {{ return("Model '" ~ node.name ~ "' has an invalid `" ~ setting ~ '`.\n  found:    ' ~ found ~ '\n  expected: ' ~ expected ~ '\n  instead:  ' ~ instead) }}
{%- endmacro %}
