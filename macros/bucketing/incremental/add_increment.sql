{#- One run, or one batch, of an incremental model: the new rows' columns against the table's, then the rows themselves. -#}
{% macro add_increment(relation, sql, layout, increment) -%}
  {%- set source = spark_bucketing.model_view(sql) -%}
  {%- set columns = spark_bucketing.table_columns(source) -%}
  {%- set layout = spark_bucketing.resolve_layout(layout, columns) -%}
  {%- set existing = spark_bucketing.table_layout(relation) -%}
  {%- set existing_columns = spark_bucketing.table_columns(spark_bucketing.quote_relation(relation)) -%}
  {%- set reconciled = spark_bucketing.reconcile_columns(increment.on_schema_change, columns, existing_columns) -%}
  {% do spark_bucketing.fill_columns(reconciled.columns, layout) %}
  {% do spark_bucketing.align_table(relation, layout, reconciled, existing_columns, existing) %}
  {% do spark_bucketing.apply_increment(relation, source, reconciled.columns, layout, increment, existing) %}
{%- endmacro %}
