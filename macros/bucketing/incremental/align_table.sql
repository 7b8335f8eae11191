{#-
  Brings the existing table to the config's layout and to the reconciled columns before new rows come in. Adding columns
  is an ALTER; everything else rewrites the table's own rows beside it and swaps.
-#}
{% macro align_table(relation, layout, reconciled, existing_columns, existing) -%}
  {%- set relayout = spark_bucketing.describe_layout(layout) != spark_bucketing.describe_layout(existing) -%}
  {%- if relayout and layout.on_bucket_change == 'fail' -%}
    {% do spark_bucketing.raise_config_error('on_bucket_change', 'fail, and the config says\n              ' ~ spark_bucketing.describe_layout(layout),
        'what the table has, which is\n              ' ~ spark_bucketing.describe_layout(existing),
        "on_bucket_change='rebuild' to rewrite the table's rows in the new layout, or dbt run --full-refresh") %}
  {%- endif -%}
  {%- if relayout or reconciled.rewrite -%}
    {%- set types = {} -%}
    {%- for column in existing_columns -%}{%- do types.update({column.name: column.type}) -%}{%- endfor -%}
    {%- set columns = [] -%}
    {%- for column in reconciled.columns -%}
      {%- set name = spark_bucketing.quote_identifier(column.name) -%}
      {%- if column.name not in types -%}
        {%- set value = 'cast(null as ' ~ column.type ~ ')' -%}
      {%- elif types[column.name] != column.type -%}
        {#- Outside ANSI mode a cast makes NULL of what it can't convert. -#}
        {%- set error = spark_bucketing.string_literal('column ' ~ column.name ~ ' has a value that is no ' ~ column.type ~ ': ') -%}
        {%- set value = 'if(' ~ name ~ ' is null, null, coalesce(try_cast(' ~ name ~ ' as ' ~ column.type ~ '), raise_error('
            ~ error ~ ' || cast(' ~ name ~ ' as string))))' -%}
      {%- else -%}
        {%- set value = name -%}
      {%- endif -%}
      {%- do columns.append({'name': column.name, 'type': column.type, 'expression': value}) -%}
    {%- endfor -%}
    {% do spark_bucketing.build_table(relation, spark_bucketing.quote_relation(relation), columns, layout, existing) %}
  {%- elif reconciled.added -%}
    {%- set definitions = spark_bucketing.column_definitions(reconciled.added, []) -%}
    {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' add columns (' ~ definitions ~ ')') %}
  {%- endif -%}
{%- endmacro %}
