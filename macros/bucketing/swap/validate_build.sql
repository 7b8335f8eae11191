{#-
  Raises an error unless this run built the finished table. Another run of the model may have dropped it, and may still be building its own
  table with the same name.

  found: string, build id of the table with this name
  expected: string, build id of this run
-#}
{% macro validate_build(finished, found, expected) -%}
  {%- if found != expected -%}
    {% do exceptions.raise_compiler_error(spark_bucketing.error_message(
        'Model `' ~ model.name ~ '` cannot be built, because another run of the model is active, and has dropped the new table of this run.',
        finished ~ ': ' ~ found, expected, 'wait for the other run, and run a model only once at a time; this run did not change ' ~ this)) %}
  {%- endif -%}
{%- endmacro %}


{#- Returns the build id of the table from a new query to the metastore. -#}
{% macro found_build(relation) -%}
  {{ return(spark_bucketing.table_layout(relation).build if spark_bucketing.existing_names(relation, [relation.identifier]) else 'no such table') }}
{%- endmacro %}
