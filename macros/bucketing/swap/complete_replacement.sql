{#-
  Finishes what a run, or `spark-bucketing table rewrite`, left when it crashed: a staging table that does not say what it replaces
  is dropped, another one is written over the table's partitions again, if the table is still the one that it was made for.
  A table that something else has built since may have newer rows in these partitions.

  existing: table_layout() of the table
-#}
{% macro complete_replacement(relation, existing) -%}
  {%- set staged = spark_bucketing.intermediate_relation(relation, 'staged') -%}
  {%- set finished = spark_bucketing.table_layout(staged) -%}
  {%- if not finished.replaces -%}
    {% do spark_bucketing.drop_relation_with_files(staged) %}
    {{ return(none) }}
  {%- endif -%}
  {%- set expected = spark_bucketing.replaced_table(relation, existing, existing.identity) -%}
  {%- if finished.replaces != expected -%}
    {% do exceptions.raise_compiler_error(
        "Model '" ~ model.name ~ "': an earlier run crashed while it replaced partitions, and its finished rows no longer fit the table.\n"
        ~ '  found:    ' ~ staged ~ ' for ' ~ finished.replaces ~ '\n  expected: ' ~ expected
        ~ '\n  instead:  drop table ' ~ staged ~ ', if ' ~ relation ~ ' is complete without it: rows that only it has are lost then. Or dbt run --full-refresh'
    ) %}
  {%- endif -%}
  {% do log('Completing an earlier run of ' ~ relation ~ ' that crashed while replacing partitions.', info=true) %}
  {% do spark_bucketing.replace_touched_partitions(relation, finished.empties, [staged]) %}
{%- endmacro %}
