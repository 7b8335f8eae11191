{#-
  Raises unless the finished table is the one that this run has built: another run of the model, which takes this one for dead, drops it
  and builds its own under the same name, of which nobody knows yet whether it is complete.
-#}
{% macro validate_build(finished, relation) -%}
  {%- set found = spark_bucketing.existing_names(finished, [finished.identifier]) -%}
  {%- set build = spark_bucketing.table_layout(finished).build if found else 'no such table' -%}
  {%- if build != context['__spark_bucketing_build'] -%}
    {% do exceptions.raise_compiler_error("Model '" ~ model.name ~ "': another run of it is going on, and has dropped what this one has built.\n"
        ~ '  found:    ' ~ finished ~ ': ' ~ build ~ '\n  expected: ' ~ context['__spark_bucketing_build']
        ~ '\n  instead:  wait for the other run, and run one at a time. ' ~ relation ~ ' is as that run leaves it, and this one has changed nothing.') %}
  {%- endif -%}
{%- endmacro %}
