{#-
  Merges this run's rows into an organized table, of which only those files are written anew that have rows of these keys or get new ones,
  see docs/explanation/file-layout.md. The tables beside the model's, in their order:
    input     the rows of this run, and what is to be done with each
    files     what is in the table's files by its file statistics
    tmp       from routed_rows_sql(): the rows of this run as they are going to be, and the files of their old and their new ones
    touched   from touched_files_sql(): the files that go
    plan      from bin_plan_sql(): the new files, and where their ranges begin
    staged    the new files
  Then one statement of the session extension replaces the files. Until then nothing of the table has changed but for added columns and its properties.

  source: SQL of a query in parentheses
  reconciled: from reconcile_columns(), with expressions
  increment: from organized_incremental_config()
  existing: table_layout() of the table
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
    {% do log(relation ~ ': the rows of this run have been merged by an earlier one, which did not end; nothing is left to do.', info=true) %}
    {% call statement('main') -%} select 'the rows have been merged before' as message {%- endcall %}
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
      {#- All rows of the touched files are deleted. -#}
      {% call statement('main') -%} select 'no rows are left of the touched files' as message {%- endcall %}
    {%- endif -%}
    {%- if increment.checks -%}
      {% do spark_bucketing.verify_merged_rows(merge) %}
    {%- endif -%}
    {%- if increment.checks and increment.operations -%}
      {#- Should the client not learn that the files were replaced, the next run finds its rows merged, which these checks would refuse. -#}
      {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ " set tblproperties ('bucketing.merged' = '" ~ merge.rows_id ~ "')") %}
    {%- endif -%}
    {#- The statement replaces files by tables of one run alone: another run, which takes this one for dead, drops both and writes its own. -#}
    {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(of.touched) ~ " set tblproperties ('bucketing.build' = '" ~ context['__spark_bucketing_build'] ~ "')") %}
    {%- set row = run_query('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' replace files listed in ' ~ spark_bucketing.quote_relation(of.touched)
        ~ ' with ' ~ spark_bucketing.quote_relation(of.staged)).rows[0] -%}
    {%- if not row[2] -%}
      {#- Storage that copies what is renamed, or a partition that lies elsewhere: the map's rows are about files of another time or name. -#}
      {% do spark_bucketing.write_file_statistics(relation, columns, layout, since) %}
    {%- endif -%}
    {% do log(relation ~ ': ' ~ '{:,}'.format(row[1] | int) ~ ' of ' ~ '{:,}'.format(merge.names.all) ~ ' files (' ~ '{:,}'.format(counts[2] | int) ~ ' bytes) replaced by '
        ~ '{:,}'.format(row[0] | int) ~ '.', info=true) %}
  {%- else -%}
    {% call statement('main') -%} select 'no new rows' as message {%- endcall %}
  {%- endif -%}
  {% do spark_bucketing.drop_relation_with_files(of.staged) %}
  {% do spark_bucketing.drop_tables([of.touched, of.plan, of.tmp, of.files, of.input]) %}
{%- endmacro %}


{% macro warn_about_unknown_files(relation, files) -%}
  {% do exceptions.warn("Model '" ~ model.name ~ "': the file statistics do not cover " ~ '{:,}'.format(files) ~ ' of the files of ' ~ relation
      ~ '. Merges look for keys in all of them, and new files may overlap them. Others have written them, or the map is damaged: write it anew, '
      ~ '`spark-bucketing table stats --repair ' ~ relation.schema ~ '.' ~ relation.identifier ~ '`.') %}
{%- endmacro %}


{#- Raises unless this session has the extension, switched on: stock Spark has no statement that replaces a file. -#}
{% macro validate_merge_session() -%}
  {%- if not spark_bucketing.extension_enabled() -%}
    {%- set missing = spark_bucketing.missing_bucket_specs()
        or {'found': 'a session with spark.bucketing.enabled = false', 'instead': 'set spark.bucketing.enabled=true'} -%}
    {% do spark_bucketing.raise_config_error('incremental_strategy', "merge of materialized='organized_incremental', in " ~ missing.found,
        'the session extension, switched on: stock Spark replaces no less than a partition', missing.instead ~ ", or incremental_strategy='insert_overwrite'") %}
  {%- endif -%}
{%- endmacro %}


{% macro validate_operations(source, increment) -%}
  {%- for operation, condition in increment.operations.items() -%}
    {%- set error = spark_bucketing.planning_error('select 1 from ' ~ source ~ ' where ' ~ spark_bucketing.operation_sql(condition)) -%}
    {%- if error -%}
      {%- set said = modules.re.search('\\[[A-Z_.]+\\] [^\n]*', error) -%}
      {% do spark_bucketing.raise_config_error(operation ~ '_when', condition ~ (': ' ~ said.group(0) if said else ''), "a condition in SQL on the columns of the model's query",
          operation ~ "_when=\"op = '" ~ operation[0] | upper ~ "'\", and `op` in the query") %}
    {%- endif -%}
  {%- endfor -%}
{%- endmacro %}


{#- What is not known to be so is not so. -#}
{% macro operation_sql(condition) -%}
  {{ return('coalesce((' ~ condition ~ '\n), false)') }}
{%- endmacro %}


{#- Columns of the input that say what is to be done with a row, reconciled with nothing. -#}
{% macro operation_columns(increment) -%}
  {%- set columns = [] -%}
  {%- for operation in ['delete', 'insert', 'update'] -%}
    {%- do columns.append({'name': '__spark_bucketing_' ~ operation, 'type': 'boolean', 'from': {'type': 'boolean'},
        'expression': spark_bucketing.operation_sql(increment.operations.get(operation, 'false'))}) -%}
  {%- endfor -%}
  {{ return(columns) }}
{%- endmacro %}


{#- Rows of a query that are not there to be deleted. Where the query has not the columns of `delete_when`, none are; raises where that is a slip. -#}
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
    {% do spark_bucketing.raise_config_error('delete_when', condition, "a condition in SQL on the columns of the model's query, which has no " ~ unknown.group(1), meant) %}
  {%- endif -%}
  {% do log(this ~ ": the query of this build has not the columns of delete_when=\"" ~ condition ~ '", so that it has no rows to delete.', info=true) %}
  {{ return(source) }}
{%- endmacro %}


{#- Writes a query's rows to a table beside the model's. -#}
{% macro write_intermediate_relation(intermediate_relation, query) -%}
  {% do spark_bucketing.drop_relation_with_files(intermediate_relation) %}
  {% do spark_bucketing.execute_sql('create table ' ~ spark_bucketing.quote_relation(intermediate_relation) ~ ' using parquet as ' ~ query) %}
{%- endmacro %}


{#- Completes or undoes a replacement of files that a run which crashed has begun. -#}
{% macro recover_files(relation) -%}
  {%- set found = run_query('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' recover files').rows[0][0] -%}
  {%- if found != 'nothing' -%}
    {% do log(relation ~ ': a run crashed while it replaced files; that has been ' ~ found ~ '.', info=true) %}
  {%- endif -%}
{%- endmacro %}
