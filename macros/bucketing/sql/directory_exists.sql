{#- Whether there is such a directory; a pattern stands for several. -#}
{% macro directory_exists(location) -%}
  {%- set look = spark_bucketing.validate_directory(location) if spark_bucketing.has_query_options()
      else 'select 1 from binaryFile.' ~ spark_bucketing.quote_identifier(location) -%}
  {%- set error = spark_bucketing.planning_error(look) -%}
  {%- if error and 'PATH_NOT_FOUND' not in error and 'Conflicting' not in error -%}
    {#- Spark refuses directories whose names are no partitions of one table. They are there. -#}
    {% do exceptions.raise_compiler_error("Model '" ~ model.name ~ "': it cannot be told whether there is a directory " ~ location ~ '.\n  found:    ' ~ error
        ~ '\n  expected: a place that Spark can list\n  instead:  give it access, and run the model again') %}
  {%- endif -%}
  {{ return('PATH_NOT_FOUND' not in error) }}
{%- endmacro %}
