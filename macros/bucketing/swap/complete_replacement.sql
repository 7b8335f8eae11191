{#-
  Applies the staged partitions of a run that died, if the table is still the one that they were made for. A table that
  something else has built since may have newer rows in these partitions.
-#}
{% macro complete_replacement(relation, existing) -%}
  {%- set staged = spark_bucketing.sibling(relation, 'staged') -%}
  {%- set finished = spark_bucketing.table_layout(staged) -%}
  {%- set expected = {
      'layout': spark_bucketing.describe_layout(existing),
      'columns': spark_bucketing.describe_columns(relation),
      'build': existing.build,
  } -%}
  {%- set found = {
      'layout': spark_bucketing.describe_layout(finished),
      'columns': spark_bucketing.describe_columns(staged),
      'build': finished.replaces,
  } -%}
  {%- for aspect in expected if found[aspect] != expected[aspect] -%}
    {% do exceptions.raise_compiler_error(
        "Model '" ~ model.name ~ "': an earlier run died while it replaced partitions, and its finished rows no longer fit the table.\n"
        ~ '  found:    ' ~ staged ~ ': ' ~ aspect ~ ' ' ~ found[aspect] ~ '\n  expected: ' ~ aspect ~ ' ' ~ expected[aspect]
        ~ '\n  instead:  dbt run --full-refresh, or drop ' ~ staged ~ ' if the table is complete without it'
    ) %}
  {%- endfor -%}
  {%- if existing.evolved -%}
    {% do spark_bucketing.validate_evolution_session('partitions that have bucket specs of their own, and that an earlier run was replacing when it died') %}
  {%- endif -%}
  {% do log('Completing an earlier run of ' ~ relation ~ ' that died while replacing partitions.', info=true) %}
  {% do spark_bucketing.replace_touched_partitions(relation) %}
{%- endmacro %}
