{#-
  Brings the existing table to the config's layout and to the reconciled columns before new rows come in. Adding columns
  is an ALTER; everything else rewrites the table's own rows beside it and swaps. Returns the table's layout.
-#}
{% macro align_table(relation, layout, reconciled, existing_columns, existing) -%}
  {%- set relayout = spark_bucketing.describe_layout(layout) != spark_bucketing.describe_layout(existing) -%}
  {%- if relayout and layout.on_bucket_change == 'fail' -%}
    {% do spark_bucketing.raise_config_error('on_bucket_change', 'fail, and the config says\n              ' ~ spark_bucketing.describe_layout(layout),
        'what the table has, which is\n              ' ~ spark_bucketing.describe_layout(existing),
        "on_bucket_change='rebuild' to rewrite the table's rows in the new layout, or dbt run --full-refresh") %}
  {%- endif -%}
  {%- if relayout or reconciled.rewrite -%}
    {%- set kept = {} -%}
    {%- for column in existing_columns -%}{%- do kept.update({column.name: column.type}) -%}{%- endfor -%}
    {%- set columns = [] -%}
    {%- for column in reconciled.columns -%}
      {%- set name = spark_bucketing.quote_identifier(column.name) -%}
      {%- set value = name if kept.get(column.name) == column.type else ('cast(' ~ (name if column.name in kept else 'null') ~ ' as ' ~ column.type ~ ')') -%}
      {%- do columns.append({'name': column.name, 'type': column.type, 'expression': value}) -%}
    {%- endfor -%}
    {% do spark_bucketing.build_table(relation, spark_bucketing.quote_relation(relation), columns, layout, existing) %}
  {%- elif reconciled.added -%}
    {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' add columns (' ~ spark_bucketing.column_definitions(reconciled.added, []) ~ ')') %}
  {%- endif -%}
{%- endmacro %}
