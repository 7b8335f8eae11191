{#-
  Merges this run's rows into a table, or appends them, with one MERGE INTO statement of the session extension. It replaces only files that contain or
  receive changed rows, and readers with the extension see all changes or none.

  new_rows: string, SQL with the columns of the table and, if the config marks operations, operation_columns()
  merge: dict, from incremental_config(), with the `columns` of the table
  hint: string, a hint for the query of the new rows
-#}
{% macro merge_into(relation, new_rows, merge, hint='') -%}
  {%- call statement('main', fetch_result=true) -%} {{ spark_bucketing.merge_sql(relation, new_rows, merge, hint) }} {%- endcall -%}
  {%- set counts = load_result('main').table.rows[0] -%}
  {% do log(this ~ ': updated ' ~ '{:,}'.format(counts[1] | int) ~ ', deleted ' ~ '{:,}'.format(counts[2] | int) ~ ' and inserted '
      ~ '{:,}'.format(counts[3] | int) ~ ' rows.', info=true) %}
{%- endmacro %}


{#-
  Returns the MERGE INTO statement. With merge_checks, a row that contradicts its operation raises an error. If the client crashes after the merge, the
  next run therefore skips rows that are already merged.
-#}
{% macro merge_sql(relation, new_rows, merge, hint) -%}
  {%- set names = merge.columns | map(attribute='name') | list -%}
  {%- set updates = spark_bucketing.updated_columns(merge, merge.columns) if merge.strategy == 'merge' else [] -%}
  {%- set assignments = [] -%}
  {%- for name in updates -%}
    {%- do assignments.append(spark_bucketing.quote_identifier(name) ~ ' = DBT_INTERNAL_SOURCE.' ~ spark_bucketing.quote_identifier(name)) -%}
  {%- endfor -%}
  {%- set insert -%}
    then insert ({{ spark_bucketing.quote_columns(names) }}) values ({{ spark_bucketing.quote_columns(names, 'DBT_INTERNAL_SOURCE.%s') }})
  {%- endset -%}
  merge into {{ spark_bucketing.quote_relation(relation) }} as DBT_INTERNAL_DEST
  using (select {{ hint }} * from {{ new_rows }}) as DBT_INTERNAL_SOURCE
  on {{ spark_bucketing.merge_condition(merge) if merge.strategy == 'merge' else 'false' }}
  {%- if merge.operations %}
  {%- if merge.checks %}
  when matched and {{ spark_bucketing.rejected_rows('insert', 'are already in the table', 'only keys that do not exist in the table', merge) }} then delete
  {%- endif %}
  when matched and DBT_INTERNAL_SOURCE.`__spark_bucketing_delete` then delete
  {%- endif %}
  {%- if updates %}
  when matched then update set {{ assignments | join(', ') }}
  {%- endif %}
  {%- for operation in ['delete', 'update'] if merge.operations and merge.checks %}
  when not matched and {{ spark_bucketing.rejected_rows(operation, 'are not in the table', 'only keys that exist in the table', merge) }} {{ insert }}
  {%- endfor %}
  when not matched {{ 'and not DBT_INTERNAL_SOURCE.`__spark_bucketing_delete` ' if merge.operations }}{{ insert }}
{%- endmacro %}


{#- Returns a condition that raises an error for a row of this operation, and is false for others. -#}
{% macro rejected_rows(operation, problem, expected, merge) -%}
  {%- set error = spark_bucketing.config_error(operation ~ '_when', 'rows to ' ~ operation ~ ' whose keys ' ~ problem ~ ', such as {row} (the table is unchanged)',
      expected, 'check whether an earlier run already merged these rows, or disable the checks with merge_checks=false') -%}
  {%- set row = 'to_json(struct(' ~ spark_bucketing.quote_columns(merge.unique_key, 'DBT_INTERNAL_SOURCE.%s') ~ '))' -%}
  {{ return('if(DBT_INTERNAL_SOURCE.`__spark_bucketing_' ~ operation ~ '`, raise_error(replace(' ~ spark_bucketing.string_literal(error) ~ ", '{row}', " ~ row
      ~ ')) is null, false)') }}
{%- endmacro %}


{#- Returns the columns that a merge updates in a matched row. -#}
{% macro updated_columns(merge, columns) -%}
  {%- set updates = [] -%}
  {%- for column in columns -%}
    {%- if (not merge.update_columns or column.name | lower in merge.update_columns | map('lower') | list)
        and column.name | lower not in merge.exclude_columns | map('lower') | list -%}
      {%- do updates.append(column.name) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(updates) }}
{%- endmacro %}
