{% macro raise_config_error(setting, found, expected, instead) -%}
  {% do exceptions.raise_compiler_error(spark_bucketing.config_error(setting, found, expected, instead)) %}
{%- endmacro %}


{% macro config_error(setting, found, expected, instead) -%}
  {{ return('Invalid `' ~ setting ~ "` of model '" ~ model.name ~ "'.\n  found:    " ~ found ~ '\n  expected: ' ~ expected ~ '\n  instead:  ' ~ instead) }}
{%- endmacro %}
