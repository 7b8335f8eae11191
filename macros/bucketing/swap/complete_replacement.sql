{#- Applies the staged partitions of a run that died, if they still fit the table. -#}
{% macro complete_replacement(relation, existing) -%}
  {%- set staged = spark_bucketing.sibling(relation, 'staged') -%}
  {%- set finished = spark_bucketing.describe_layout(spark_bucketing.table_layout(staged)) -%}
  {%- if finished != spark_bucketing.describe_layout(existing) -%}
    {% do exceptions.raise_compiler_error(
        "Model '" ~ model.name ~ "': an earlier run died while it replaced partitions, and its finished rows no longer fit the table.\n"
        ~ '  found:    ' ~ staged ~ ': ' ~ finished ~ '\n  expected: ' ~ spark_bucketing.describe_layout(existing)
        ~ '\n  instead:  dbt run --full-refresh, or drop ' ~ staged ~ ' if the table is complete without it'
    ) %}
  {%- endif -%}
  {% do log('Completing an earlier run of ' ~ relation ~ ' that died while replacing partitions.', info=true) %}
  {% do spark_bucketing.replace_touched_partitions(relation) %}
{%- endmacro %}
