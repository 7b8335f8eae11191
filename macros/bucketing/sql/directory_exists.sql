{#- Returns whether a directory exists. The location may be a glob pattern, which must match at least one directory. -#}
{% macro directory_exists(location) -%}
  {%- set query = spark_bucketing.validate_directory(location) if spark_bucketing.has_query_options()
      else 'select 1 from binaryFile.' ~ spark_bucketing.quote_identifier(location) -%}
  {%- set error = spark_bucketing.planning_error(query) -%}
  {%- if error and 'PATH_NOT_FOUND' not in error and 'Conflicting' not in error -%}
    {#- If the error is about 'conflicting' names, partition directories exist, but Spark cannot read them as one table. -#}
    {% do exceptions.raise_compiler_error(spark_bucketing.error_message('Model `' ~ model.name ~ '` cannot be built, because Spark cannot list the directory `' ~ location ~ '`.',
        error, 'a directory that Spark can list', 'grant Spark access to the directory, and run the model again')) %}
  {%- endif -%}
  {{ return('PATH_NOT_FOUND' not in error) }}
{%- endmacro %}
