{#-
  Builds the whole table from a source, beside the existing one, and swaps it in when it is complete and verified.

  source: SQL of a relation or of a query in parentheses
  columns: list of {name, type[, expression]}
  existing: table_layout() of what is to be replaced, or none
-#}
{% macro build_table(relation, source, columns, layout, existing) -%}
  {%- set tmp = spark_bucketing.sibling(relation, 'tmp') -%}
  {% do spark_bucketing.warn_of_tiny_files(source, layout) %}
  {% do spark_bucketing.create_bucketed_table(tmp, columns, layout) %}
  {% do spark_bucketing.insert_bucketed(tmp, source, columns, layout) %}
  {% do spark_bucketing.verify_buckets(tmp, layout) %}
  {% do spark_bucketing.mark_written(tmp, layout) %}
  {% do spark_bucketing.replace_relation(tmp, relation, existing) %}
{%- endmacro %}
