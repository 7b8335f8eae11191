{#-
  Returns the complete staging table of an earlier run that crashed while it replaced partitions, as {relation, empties}, or none. Drops an incomplete one.

  Raises an error if the table was rebuilt in the meantime, because it may contain newer rows in these partitions.

  existing: dict, table_layout() of the table
-#}
{% macro unfinished_replacement(relation, existing) -%}
  {%- set staged = spark_bucketing.intermediate_relation(relation, 'staged') -%}
  {%- set finished = spark_bucketing.table_layout(staged) -%}
  {%- if not finished.replaces -%}
    {% do spark_bucketing.drop_relation_with_files(staged) %}
    {{ return(none) }}
  {%- endif -%}
  {%- set expected = spark_bucketing.replaced_table(relation, existing, existing.identity) -%}
  {%- if finished.replaces != expected -%}
    {% do exceptions.raise_compiler_error(spark_bucketing.error_message(
        'Model `' ~ model.name ~ '` cannot be built, because an earlier run crashed while it replaced partitions, and the table has changed since.',
        staged ~ ' for ' ~ finished.replaces, expected, 'if ' ~ relation ~ ' contains all rows that you need, run `DROP TABLE ' ~ staged ~ '`, which deletes its rows; otherwise, run `dbt run --full-refresh`'
    )) %}
  {%- endif -%}
  {% do log('Completing an earlier run of ' ~ relation ~ ' that crashed while it replaced partitions.', info=true) %}
  {{ return({'relation': staged, 'empties': finished.empties}) }}
{%- endmacro %}
