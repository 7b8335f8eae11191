{#-
  Applies `on_schema_change` to the differences between the columns of the query and the table. Returns {columns, added, rewrite}.

    columns  list of {name, type, from}: the future columns of the table, each with its column of the query or none
    added    list of new columns
    rewrite  whether dropped columns or changed types require a rewrite of the table

  syncs: bool, whether the model supports 'sync_all_columns'
-#}
{% macro reconcile_columns(on_schema_change, query_columns, existing_columns, syncs=true) -%}
  {%- set in_query = dict(zip(query_columns | map(attribute='name') | map('lower'), query_columns)) -%}
  {%- set in_table = dict(zip(existing_columns | map(attribute='name') | map('lower'), existing_columns)) -%}
  {%- set added = [] -%}
  {%- set missing = [] -%}
  {%- set retyped = [] -%}
  {%- for column in query_columns -%}
    {%- set before = in_table.get(column.name | lower) -%}
    {%- if before is none -%}
      {%- do added.append(column) -%}
    {%- elif not spark_bucketing.is_same_type_ignoring_void(before.type, column.with_void or column.type) -%}
      {%- do retyped.append(column.name ~ ' ' ~ before.type ~ ' -> ' ~ column.type) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- for column in existing_columns if column.name | lower not in in_query -%}
    {%- do missing.append(column.name) -%}
  {%- endfor -%}

  {%- set differences = 'new in the query: ' ~ (added | map(attribute='name') | join(', ') or 'none')
      ~ '; missing in the query: ' ~ (missing | join(', ') or 'none') ~ '; changed type: ' ~ (retyped | join(', ') or 'none') -%}
  {%- if on_schema_change == 'fail' and (added or missing or retyped) -%}
    {% do spark_bucketing.raise_config_error('on_schema_change', 'fail, and ' ~ differences, 'the same columns in the query and in the table',
        "on_schema_change='append_new_columns'" ~ (" or 'sync_all_columns'" if syncs else '') ~ ', or `dbt run --full-refresh`') %}
  {%- elif on_schema_change == 'ignore' and missing -%}
    {% do spark_bucketing.raise_config_error('on_schema_change', 'ignore, and ' ~ differences, 'every column of the table in the query',
        "select the missing columns, on_schema_change='append_new_columns' to fill them with NULL, or " ~ ("'sync_all_columns'" if syncs else '`dbt run --full-refresh`') ~ ' to drop them') %}
  {%- endif -%}

  {%- set sync = on_schema_change == 'sync_all_columns' -%}
  {%- set columns = [] -%}
  {%- for column in existing_columns -%}
    {%- set queried = in_query.get(column.name | lower) -%}
    {%- if queried and sync -%}
      {%- set kept = spark_bucketing.is_same_type_ignoring_void(column.type, queried.with_void or queried.type) -%}
      {%- do columns.append({'name': column.name, 'type': column.type if kept else queried.type, 'from': queried}) -%}
    {%- elif queried or not sync -%}
      {%- do columns.append({'name': column.name, 'type': column.type, 'from': queried}) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- if on_schema_change in ['append_new_columns', 'sync_all_columns'] -%}
    {%- for column in added -%}
      {%- do columns.append({'name': column.name, 'type': column.type, 'from': column}) -%}
    {%- endfor -%}
  {%- else -%}
    {%- set added = [] -%}
  {%- endif -%}
  {{ return({'columns': columns, 'added': added, 'rewrite': sync and (missing or retyped)}) }}
{%- endmacro %}
