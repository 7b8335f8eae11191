{#-
  Merges this run's rows into an organized table, and rewrites only files that contain or receive changed rows; see
  docs/explanation/file-layout.md. It creates these intermediate tables, in this order:
    input     the rows of this run, with their operations
    files     the table's files and their statistics
    tmp       from routed_rows_sql(): the rows of this run as the table will contain them, with the files and ranges that they touch
    touched   from touched_files_sql(): the files to replace
    plan      from bin_plan_sql(): the new files and their range boundaries
    staged    the new files
  Finally, one statement of the session extension replaces the files. Before it, only added columns and properties change the table.

  source: string, SQL query in parentheses
  reconciled: dict, from reconcile_columns(), with expressions
  increment: dict, from incremental_config()
  existing: dict, table_layout() of the table
-#}
{% macro merge_organized(relation, source, reconciled, layout, increment, existing) -%}
  {%- set columns = spark_bucketing.without_expressions(reconciled.columns) -%}
  {% do spark_bucketing.validate_merge_columns(columns, increment) %}
  {% do spark_bucketing.validate_merge_session() %}
  {% do spark_bucketing.validate_operations(source, increment) %}
  {%- set of = dict(spark_bucketing.intermediate_relations(relation), table=relation) -%}
  {%- set rows = spark_bucketing.aligned_rows(relation, columns, spark_bucketing.table_columns(spark_bucketing.quote_relation(relation)), []) -%}
  {% do spark_bucketing.load_input(relation, source, reconciled.columns + spark_bucketing.operation_columns(increment), layout) %}
  {% do spark_bucketing.validate_merge_predicates(rows, spark_bucketing.quote_relation(of.input), increment) %}
  {%- set merge = dict(increment, of=of, columns=columns, layout=layout) -%}

  {% do spark_bucketing.write_intermediate_relation(of.files, spark_bucketing.listed_files_sql(relation, layout)) %}
  {% do spark_bucketing.write_intermediate_relation(of.tmp, spark_bucketing.routed_rows_sql(merge)) %}
  {%- do merge.update({'rows_id': spark_bucketing.validate_routed_rows(merge, existing)}) -%}
  {%- if not merge.rows_id -%}
    {% do log(relation ~ ': an earlier run that did not finish has already merged these rows.', info=true) %}
    {% call statement('main') -%} select 'rows already merged' as message {%- endcall %}
    {% do spark_bucketing.drop_tables([of.tmp, of.files, of.input]) %}
    {{ return(none) }}
  {%- endif -%}
  {% do spark_bucketing.alter_relation(relation, reconciled.added, none, layout, existing) %}
  {%- set rows_per_file = spark_bucketing.rows_per_file(of.input, columns, layout, relation, existing, known=of.files) -%}
  {% do spark_bucketing.write_intermediate_relation(of.touched, spark_bucketing.touched_files_sql(merge, rows_per_file)) %}
  {%- set counts = run_query('select count(*), count_if(is_open), coalesce(sum(if(file is null, 0, bytes)), 0), (select count_if(not is_known) from '
      ~ spark_bucketing.quote_relation(of.files) ~ ') from ' ~ spark_bucketing.quote_relation(of.touched)).rows[0] -%}
  {%- if counts[3] | int -%}
    {% do spark_bucketing.warn_about_unknown_files(relation, counts[3] | int) %}
  {%- endif -%}
  {%- if counts[0] | int -%}
    {%- do merge.update({'names': spark_bucketing.file_name_list(of.touched, of.files)}) -%}
    {%- set bins = dict(layout, implicit_partition_by=layout.implicit_partition_by + spark_bucketing.bin_columns(), of_bins=true, range_boundaries_from=none) -%}
    {%- set plan = spark_bucketing.write_plan(relation, spark_bucketing.numbered_files_sql(
        spark_bucketing.bin_plan_sql(merge, bins, rows_per_file, counts[1] | int), bins), bins) -%}
    {%- set since = spark_bucketing.minutes_ago() -%}
    {% do spark_bucketing.create_bucketed_table(of.staged, columns, layout) %}
    {%- if plan.rows -%}
      {% do spark_bucketing.insert_organized(of.staged, '(' ~ spark_bucketing.rewritten_rows_sql(merge, merge.names) ~ ')', plan, columns, bins) %}
      {% do spark_bucketing.write_file_statistics(of.staged, columns, layout) %}
    {%- else -%}
      {#- The merge deletes all rows of the touched files. -#}
      {% call statement('main') -%} select 'all rows of the touched files deleted' as message {%- endcall %}
    {%- endif -%}
    {%- if increment.checks -%}
      {% do spark_bucketing.verify_merged_rows(merge) %}
    {%- endif -%}
    {%- if increment.checks and increment.operations -%}
      {#- If the client crashes after the replacement, the checks of the next run would reject its rows, so the id marks them as already merged. -#}
      {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ " set tblproperties ('bucketing.merged' = '" ~ merge.rows_id ~ "')") %}
    {%- endif -%}
    {#- The statement requires that the same run built both tables, because a concurrent run may have dropped and replaced one of them. -#}
    {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(of.touched) ~ " set tblproperties ('bucketing.build' = '" ~ context['__spark_bucketing_build'] ~ "')") %}
    {%- set row = run_query('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' replace files listed in ' ~ spark_bucketing.quote_relation(of.touched)
        ~ ' with ' ~ spark_bucketing.quote_relation(of.staged)).rows[0] -%}
    {%- if not row[2] -%}
      {#- The files have new names or times, because the storage copies files or a partition has another location. The statistics are outdated. -#}
      {% do spark_bucketing.write_file_statistics(relation, columns, layout, since) %}
    {%- endif -%}
    {% do log(relation ~ ': replaced ' ~ '{:,}'.format(row[1] | int) ~ ' of ' ~ '{:,}'.format(merge.names.all) ~ ' files (' ~ '{:,}'.format(counts[2] | int) ~ ' bytes) with '
        ~ '{:,}'.format(row[0] | int) ~ ' new ones.', info=true) %}
  {%- else -%}
    {% call statement('main') -%} select 'no new rows' as message {%- endcall %}
  {%- endif -%}
  {% do spark_bucketing.drop_relation_with_files(of.staged) %}
  {% do spark_bucketing.drop_tables([of.touched, of.plan, of.tmp, of.files, of.input]) %}
{%- endmacro %}


{% macro warn_about_unknown_files(relation, files) -%}
  {% do exceptions.warn("Model '" ~ model.name ~ "': the file statistics do not cover " ~ '{:,}'.format(files) ~ ' files of ' ~ relation
      ~ '. Another writer added these files, or the statistics are damaged. Every merge reads them, and new files may overlap with them. Rebuild the statistics with '
      ~ '`spark-bucketing table stats --repair ' ~ relation.schema ~ '.' ~ relation.identifier ~ '`.') %}
{%- endmacro %}


{#- Raises an error unless the session extension is enabled. Stock Spark has no statement that replaces files. -#}
{% macro validate_merge_session() -%}
  {%- if not spark_bucketing.extension_enabled() -%}
    {%- set missing = spark_bucketing.missing_bucket_specs()
        or {'found': 'a session with spark.bucketing.enabled = false', 'instead': 'set spark.bucketing.enabled=true'} -%}
    {% do spark_bucketing.raise_config_error('incremental_strategy', "merge with materialized='organized_incremental', in " ~ missing.found,
        'the session extension, enabled; stock Spark cannot replace less than a partition', missing.instead ~ ", or incremental_strategy='insert_overwrite'") %}
  {%- endif -%}
{%- endmacro %}


{% macro validate_operations(source, increment) -%}
  {%- for operation, condition in increment.operations.items() -%}
    {%- set error = spark_bucketing.planning_error('select 1 from ' ~ source ~ ' where ' ~ spark_bucketing.operation_sql(condition)) -%}
    {%- if error -%}
      {%- set reason = modules.re.search('\\[[A-Z_.]+\\] [^\n]*', error) -%}
      {% do spark_bucketing.raise_config_error(operation ~ '_when', condition ~ (': ' ~ reason.group(0) if reason else ''), "a SQL condition on columns of the model's query",
          operation ~ "_when=\"op = '" ~ operation[0] | upper ~ "'\", and `op` in the query") %}
    {%- endif -%}
  {%- endfor -%}
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


{#- Writes the rows of a query to an intermediate table. -#}
{% macro write_intermediate_relation(intermediate_relation, query) -%}
  {% do spark_bucketing.drop_relation_with_files(intermediate_relation) %}
  {% do spark_bucketing.execute_sql('create table ' ~ spark_bucketing.quote_relation(intermediate_relation) ~ ' using parquet as ' ~ query) %}
{%- endmacro %}


{#- Completes or reverts the file replacement of a crashed run. -#}
{% macro recover_files(relation) -%}
  {%- set found = run_query('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' recover files').rows[0][0] -%}
  {%- if found != 'nothing' -%}
    {% do log(relation ~ ': an earlier run crashed while it replaced files. The replacement was ' ~ found ~ '.', info=true) %}
  {%- endif -%}
{%- endmacro %}
