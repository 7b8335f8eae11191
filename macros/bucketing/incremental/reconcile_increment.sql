{#-
  Compares the query of an increment with the table, and returns a dict:
    source           the query in parentheses
    columns          the future columns of the table, each with the expression that reads it from the query
    plain            the columns without the expressions
    added            the columns to add to the table
    existing         table_layout() of the table
    layout, change   the layout of the new rows, and the result of layout_changes()
    rewrite          whether the run must rewrite the whole table
    rows             the table's current rows with its future columns, as a query in parentheses, from aligned_rows()
-#}
{% macro reconcile_increment(relation, sql, layout, increment) -%}
  {%- set source = spark_bucketing.model_source(sql) -%}
  {%- set columns = spark_bucketing.query_columns(source) -%}
  {%- set layout = spark_bucketing.resolve_layout(layout, columns) -%}
  {% do spark_bucketing.validate_merge_columns(columns, increment) %}
  {%- set existing = spark_bucketing.table_layout(relation) -%}
  {%- set existing_columns = spark_bucketing.table_columns(spark_bucketing.quote_relation(relation)) -%}
  {%- set reconciled = spark_bucketing.reconcile_columns(increment.on_schema_change, columns, existing_columns) -%}
  {% do spark_bucketing.validate_merge_columns(reconciled.columns, increment) %}
  {% do spark_bucketing.fill_columns(reconciled.columns, layout) %}
  {%- set change = spark_bucketing.layout_changes(layout, existing) -%}
  {%- set rewrite = change == 'rewrite' or reconciled.rewrite -%}
  {%- if not rewrite and change == 'evolve' -%}
    {% do spark_bucketing.require_extension('on_bucket_change', 'evolve', 'stock Spark cannot change the buckets of a table',
        "on_bucket_change='rebuild' or `dbt run --full-refresh` to rewrite the table") %}
  {%- endif -%}
  {%- set plain = spark_bucketing.without_expressions(reconciled.columns) -%}
  {{ return({
      'source': source,
      'columns': reconciled.columns,
      'plain': plain,
      'added': reconciled.added,
      'existing': existing,
      'layout': layout,
      'change': change,
      'rewrite': rewrite,
      'rows': spark_bucketing.aligned_rows(relation, plain, existing_columns, layout.partition_by if rewrite else []),
  }) }}
{%- endmacro %}
