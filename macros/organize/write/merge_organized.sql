{#-
  Merges this run's rows into an organized table with one MERGE INTO statement of the session extension. It rewrites only files that contain or
  receive changed rows; see docs/explanation/file-layout.md. Before it, only added columns and properties change the table.

  new_rows: string, SQL with the columns of the table and operation_columns()
  merge: dict, from incremental_config(), with the `columns` of the table
  existing: dict, table_layout() of the table
-#}
{% macro merge_organized(relation, new_rows, merge, layout, existing) -%}
  {% do spark_bucketing.warn_about_unknown_files(relation) %}
  {% do spark_bucketing.set_file_sizes(relation, layout, existing) %}
  {% do spark_bucketing.merge_into(relation, new_rows, merge, "/*+ merge_checks(" ~ ("'files', 'once'" if merge.checks else "'keys'") ~ ") */") %}
{%- endmacro %}


{#-
  Sets the size, number or boundaries of files, which the extension reads from the table. A table that another file strategy has written has no file
  statistics yet.
-#}
{% macro set_file_sizes(relation, layout, existing) -%}
  {%- set properties = spark_bucketing.file_size_properties(layout) -%}
  {%- if not spark_bucketing.has_other_strategy(layout) and not existing.has_file_statistics -%}
    {%- do properties.update({'bucketing.range_by': '[]'}) -%}
  {%- endif -%}
  {%- for key in existing.file_sizes.keys() | reject('in', properties) -%}
    {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' unset tblproperties if exists (' ~ spark_bucketing.string_literal(key) ~ ')') %}
  {%- endfor -%}
  {%- if properties != existing.file_sizes and properties -%}
    {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' set tblproperties ' ~ spark_bucketing.property_list(properties)) %}
  {%- endif -%}
{%- endmacro %}


{#- Returns the table properties that state the size, number or boundaries of files. -#}
{% macro file_size_properties(layout) -%}
  {%- set setting = layout.file_count.setting -%}
  {%- set properties = {'bucketing.' ~ setting: layout.file_count.value | string} if setting != 'range_boundaries_from' else {} -%}
  {%- if layout.range_boundaries_from -%}
    {%- do properties.update({'bucketing.range_boundaries_from': spark_bucketing.quote_relation(spark_bucketing.range_boundaries_table(layout).relation)}) -%}
  {%- endif -%}
  {{ return(properties) }}
{%- endmacro %}


{% macro warn_about_unknown_files(relation) -%}
  {%- set name = spark_bucketing.string_literal(spark_bucketing.quote_relation(relation)) -%}
  {%- set files = run_query('select count(*) from file_statistics(' ~ name ~ ') where rows is null').rows[0][0] | int -%}
  {%- if files -%}
    {% do exceptions.warn("Model `" ~ model.name ~ "`: the file statistics do not cover " ~ '{:,}'.format(files) ~ ' files of ' ~ relation
        ~ '. Another writer added these files, or the statistics are damaged. Every merge reads them, and new files may overlap with them. Rebuild the statistics with '
        ~ '`spark-bucketing table stats --repair ' ~ relation.schema ~ '.' ~ relation.identifier ~ '`.') %}
  {%- endif -%}
{%- endmacro %}


{#-
  Raises an error unless the rows of a query can be merged.

  source: string, SQL query in parentheses
  columns: list of the reconciled columns, with expressions
-#}
{% macro validate_organized_merge(relation, source, columns, existing_columns, layout, merge) -%}
  {% do spark_bucketing.validate_merge_columns(merge.columns, merge) %}
  {%- for operation, condition in merge.operations.items() -%}
    {%- set error = spark_bucketing.planning_error('select 1 from ' ~ source ~ ' where ' ~ spark_bucketing.operation_sql(condition)) -%}
    {%- if error -%}
      {%- set reason = modules.re.search('\\[[A-Z_.]+\\] [^\n]*', error) -%}
      {% do spark_bucketing.raise_config_error(operation ~ '_when', condition ~ (': ' ~ reason.group(0) if reason else ''), "a SQL condition on columns of the model's query",
          operation ~ "_when=\"op = '" ~ operation[0] | upper ~ "'\", and `op` in the query") %}
    {%- endif -%}
  {%- endfor -%}
  {% do spark_bucketing.validate_merge_predicates(spark_bucketing.aligned_rows(relation, merge.columns, existing_columns, []),
      '(select ' ~ spark_bucketing.select_list(columns, layout.partition_by) ~ ' from ' ~ source ~ ')', merge) %}
{%- endmacro %}


{#- Returns a condition with false in place of NULL. -#}
{% macro operation_sql(condition) -%}
  {{ return('coalesce((' ~ condition ~ '\n), false)') }}
{%- endmacro %}


{#- Returns the input columns that mark a row for an operation. They are not columns of the table. -#}
{% macro operation_columns(increment) -%}
  {%- set columns = [] -%}
  {%- for operation in ['delete', 'insert', 'update'] -%}
    {%- do columns.append({'name': '__spark_bucketing_' ~ operation, 'type': 'boolean', 'from': {'type': 'boolean'},
        'expression': spark_bucketing.operation_sql(increment.operations.get(operation, 'false'))}) -%}
  {%- endfor -%}
  {{ return(columns) }}
{%- endmacro %}


{#-
  Returns a query without the rows that `delete_when` marks. If the query does not have the columns of `delete_when`, it deletes no rows.

  Raises an error if a missing column looks misspelled.
-#}
{% macro without_deletions(source, columns, increment) -%}
  {%- set condition = increment.operations.get('delete') -%}
  {%- if not condition -%}
    {{ return(source) }}
  {%- endif -%}
  {%- set kept = '(select * from ' ~ source ~ ' where not ' ~ spark_bucketing.operation_sql(condition) ~ ')' -%}
  {%- set error = spark_bucketing.planning_error('select 1 from ' ~ kept) -%}
  {%- if 'UNRESOLVED_COLUMN' not in error -%}
    {{ return(kept) }}
  {%- endif -%}
  {%- set unknown = modules.re.search('with name `([^`]+)`', error) -%}
  {%- set meant = spark_bucketing.nearest_name(unknown.group(1), columns | map(attribute='name') | list) if unknown -%}
  {%- if meant -%}
    {% do spark_bucketing.raise_config_error('delete_when', condition, "a SQL condition on columns of the model's query, which has no column " ~ unknown.group(1), meant) %}
  {%- endif -%}
  {% do log(this ~ ": the query does not have the columns of delete_when=\"" ~ condition ~ '", so this build deletes no rows.', info=true) %}
  {{ return(source) }}
{%- endmacro %}


{#- Completes or reverts the file replacement of a crashed run. -#}
{% macro recover_files(relation) -%}
  {%- set found = run_query('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' recover files').rows[0][0] -%}
  {%- if found != 'nothing' -%}
    {% do log(relation ~ ': an earlier run crashed while it replaced files. The replacement was ' ~ found ~ '.', info=true) %}
  {%- endif -%}
{%- endmacro %}
