{#-
  Finishes what a run, or `spark-bucketing evolution rewrite`, left when it died: an incomplete staging table is dropped, a
  complete one is written over the table's partitions again, if the table is still the one that it was made for. A table
  that something else has built since may have newer rows in these partitions.

  existing: table_layout() of the table
-#}
{% macro complete_replacement(relation, existing) -%}
  {%- set staged = spark_bucketing.sibling(relation, 'staged') -%}
  {%- set finished = spark_bucketing.table_layout(staged) -%}
  {%- if finished.staging == 'incomplete' -%}
    {% do spark_bucketing.drop_relation_with_files(staged) %}
    {{ return(none) }}
  {%- endif -%}
  {%- set expected = {
      'staging': 'complete',
      'columns': spark_bucketing.describe_columns(relation),
      'partitions': existing.partition_by | join(', '),
      'table': existing.identity,
  } -%}
  {%- set found = {
      'staging': finished.staging,
      'columns': spark_bucketing.describe_columns(staged),
      'partitions': finished.partition_by | join(', '),
      'table': finished.replaces,
  } -%}
  {%- for aspect in expected if found[aspect] != expected[aspect] -%}
    {% do exceptions.raise_compiler_error(
        "Model '" ~ model.name ~ "': an earlier run died while it replaced partitions, and its finished rows no longer fit the table.\n"
        ~ '  found:    ' ~ staged ~ ': ' ~ aspect ~ ' ' ~ found[aspect] ~ '\n  expected: ' ~ aspect ~ ' ' ~ expected[aspect]
        ~ '\n  instead:  dbt run --full-refresh, or drop ' ~ staged ~ ' if the table is complete without it'
    ) %}
  {%- endfor -%}
  {% do log('Completing an earlier run of ' ~ relation ~ ' that died while replacing partitions.', info=true) %}
  {%- set stored = spark_bucketing.stored_partitions(staged) -%}
  {%- set filled = spark_bucketing.partition_values(finished.partition_by, spark_bucketing.quote_relation(staged)).partitions if finished.empties else stored -%}
  {% do spark_bucketing.replace_touched_partitions(relation, filled, stored | reject('in', filled) | list, [staged]) %}
{%- endmacro %}
