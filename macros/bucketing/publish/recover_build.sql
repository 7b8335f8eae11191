{#-
  Finishes or drops the build of a run that crashed. A build without `bucketing.replaces` was incomplete, or its publication was one statement.
  Deletes its files only if no partition points to them. With the extension, CLEAN BUILDS does this.

  Raises an error if the table was rebuilt in the meantime, because it may contain newer rows in these partitions.

  existing: dict, table_layout() of the table
-#}
{% macro recover_build(relation, existing) -%}
  {%- set build = spark_bucketing.intermediate_relation(relation, 'build') -%}
  {%- set finished = spark_bucketing.table_layout(build) -%}
  {%- if finished.replaces -%}
    {%- set expected = spark_bucketing.replaced_table(relation, existing, existing.identity) -%}
    {%- if finished.replaces != expected -%}
      {% do exceptions.raise_compiler_error(
          "Model '" ~ model.name ~ "': an earlier run crashed while it published partitions, and the table has changed since.\n"
          ~ '  found:    ' ~ build ~ ' for ' ~ finished.replaces ~ '\n  expected: ' ~ expected
          ~ '\n  instead:  if ' ~ relation ~ ' contains all rows that you need, drop table ' ~ build ~ ', which may contain others. Otherwise, dbt run --full-refresh'
      ) %}
    {%- endif -%}
    {% do log('Completing an earlier run of ' ~ relation ~ ' that crashed while it published partitions.', info=true) %}
    {% do spark_bucketing.publish_partitions(relation, build, existing) %}
    {% do spark_bucketing.delete_defaults(relation, existing.superseded) %}
    {% do spark_bucketing.drop_tables([build]) %}
  {%- else -%}
    {%- set partitions = spark_bucketing.partitions_of(build) if finished.partition_by and not spark_bucketing.extension_enabled() else [] -%}
    {%- set used = spark_bucketing.used_directories(relation, partitions, existing) | join(' ') -%}
    {% do spark_bucketing.drop_tables([build]) if spark_bucketing.extension_enabled() or (finished.build ~ '/') in used else spark_bucketing.drop_relation_with_files(build) %}
  {%- endif -%}
{%- endmacro %}


{#-
  Deletes the directories of earlier builds that no partition points to any more. A run does this before it writes, so that queries that were planned
  before the previous run can finish.
-#}
{% macro clean_builds(relation) -%}
  {%- if spark_bucketing.extension_enabled() -%}
    {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' clean builds') %}
  {%- else -%}
    {% do spark_bucketing.delete_superseded(relation, spark_bucketing.table_layout(relation)) %}
  {%- endif -%}
{%- endmacro %}


{#- Drops a table of this run that it does not publish. With the extension, the next run deletes its build directory, if it has one. -#}
{% macro drop_unpublished(relation) -%}
  {%- if spark_bucketing.extension_enabled() -%}
    {% do spark_bucketing.drop_tables([relation]) %}
  {%- else -%}
    {% do spark_bucketing.drop_relation_with_files(relation) %}
  {%- endif -%}
{%- endmacro %}
