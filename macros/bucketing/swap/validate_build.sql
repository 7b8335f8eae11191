{#-
  Raises unless the finished table is the one that this run has built: another run of the model, which takes this one for dead, drops it
  and builds its own under the same name, of which nobody knows yet whether it is complete.

  found: the build that has the name now
  expected: that of this run
-#}
{% macro validate_build(finished, found, expected) -%}
  {%- if found != expected -%}
    {% do exceptions.raise_compiler_error("Model '" ~ model.name ~ "': another run of it is going on, and has dropped what this one has built.\n"
        ~ '  found:    ' ~ finished ~ ': ' ~ found ~ '\n  expected: ' ~ expected
        ~ '\n  instead:  wait for the other run, and run one at a time. ' ~ this ~ ' is as that run leaves it, and this one has changed nothing.') %}
  {%- endif -%}
{%- endmacro %}


{#- The build that has the name in the metastore, which is asked again. -#}
{% macro found_build(relation) -%}
  {{ return(spark_bucketing.table_layout(relation).build if spark_bucketing.existing_names(relation, [relation.identifier]) else 'no such table') }}
{%- endmacro %}
