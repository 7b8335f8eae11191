{#- Whether there is such a directory; a pattern stands for several. -#}
{% macro directory_exists(location) -%}
  {%- set error = spark_bucketing.planning_error('select 1 from binaryFile.' ~ spark_bucketing.quote_identifier(location)) -%}
  {%- if error and 'PATH_NOT_FOUND' not in error and 'Conflicting' not in error -%}
    {#- Spark refuses directories whose names are no partitions of one table. They are there. -#}
    {% do exceptions.raise_compiler_error("Model '" ~ model.name ~ "': it cannot be told whether there is a directory " ~ location ~ '.\n  found:    ' ~ error
        ~ '\n  expected: a place that Spark can list\n  instead:  give it access, and run the model again') %}
  {%- endif -%}
  {{ return('PATH_NOT_FOUND' not in error) }}
{%- endmacro %}
