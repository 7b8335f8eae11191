{#-
  Replaces the model's relation with a finished table. The previous relation becomes the backup and is dropped.

  The two renames are one SQL script, which renames back if the second one fails. If the process crashes between them, or if the second
  rename fails without scripts, the next run restores the backup with recover_relation(). A previous table without a directory, or a view of
  a missing table, cannot be renamed and is dropped. A directory in the backup's location is never deleted, because it may contain the only
  copy of the rows (raise_interrupted_rename).

  Errors of the metastore have no SQLSTATE, so Spark's search for a handler in a script fails with a NullPointerException. Both tables are
  therefore altered before the swap: the new one by mark_written(), the previous one here unless this package built it. Errors of Spark
  itself, such as a table or directory that is in the way, have a SQLSTATE.

  existing: dict, table_layout() of the replaced relation, or none
-#}
{% macro swap_relations(finished, relation, existing) -%}
  {%- set backup = spark_bucketing.intermediate_relation(relation, 'backup') -%}
  {%- if existing is none -%}
    {% do spark_bucketing.execute_sql(spark_bucketing.rename_sql(finished, relation)) %}
  {%- else -%}
    {%- if not existing.build -%}
      {% do spark_bucketing.execute_sql('alter ' ~ existing.type ~ ' ' ~ spark_bucketing.quote_relation(relation) ~ " set tblproperties ('bucketing.replaced' = 'true')") %}
    {%- endif -%}
    {%- if spark_bucketing.has_scripts() -%}
      {% do spark_bucketing.execute_sql(spark_bucketing.swap_script(finished, relation, backup, existing), 'swap') %}
    {%- else -%}
      {#- Without a script, nothing renames back, so check first whether the previous relation can be renamed. -#}
      {%- set quoted = spark_bucketing.quote_relation(relation) -%}
      {%- set error = spark_bucketing.planning_error('select * from ' ~ quoted) -%}
      {%- set gone = ('TABLE_OR_VIEW_NOT_FOUND' if existing.type == 'view' else 'PATH_NOT_FOUND') in error -%}
      {% do spark_bucketing.execute_sql('drop ' ~ existing.type ~ ' if exists ' ~ quoted if gone else spark_bucketing.rename_sql(relation, backup, existing.type)) %}
      {% do spark_bucketing.execute_sql(spark_bucketing.rename_sql(finished, relation)) %}
    {%- endif -%}
    {% do spark_bucketing.drop_relation_with_files(backup, existing) %}
  {%- endif -%}
{%- endmacro %}


{% macro rename_sql(relation, to, type='table') -%}
  {{ return('alter ' ~ type ~ ' ' ~ spark_bucketing.quote_relation(relation) ~ ' rename to ' ~ spark_bucketing.quote_relation(to)) }}
{%- endmacro %}


{% macro swap_script(finished, relation, backup, existing) -%}
  begin
    begin
      {%- if existing.type == 'view' %}
      declare exit handler for TABLE_OR_VIEW_NOT_FOUND begin drop view if exists {{ spark_bucketing.quote_relation(relation) }}; end;
      {%- else %}
      declare exit handler for PATH_NOT_FOUND
      begin
        begin
          declare exit handler for PATH_NOT_FOUND begin drop table if exists {{ spark_bucketing.quote_relation(relation) }}; end;
          {{ spark_bucketing.validate_directory(existing.location) }};
          select raise_error({{ spark_bucketing.string_literal(spark_bucketing.error_message('Table `' ~ relation ~ '` could not be renamed, and is unchanged.', none, none,
              'check that Spark may rename the table, and run the model again; the new table is ' ~ finished)) }});
        end;
      end;
      {%- endif %}
      {{ spark_bucketing.rename_sql(relation, backup, existing.type) }};
    end;
    begin
      declare exit handler for sqlexception
      begin
        begin
          {%- if existing.type == 'view' %}
          declare exit handler for TABLE_OR_VIEW_NOT_FOUND begin end;
          {%- endif %}
          {{ spark_bucketing.rename_sql(backup, relation, existing.type) }};
        end;
        select raise_error({{ spark_bucketing.string_literal(spark_bucketing.error_message('The new table could not be renamed to `' ~ relation ~ '`. The previous one is restored'
            ~ (', unless it was a view of a missing table' if existing.type == 'view' else '') ~ '.', none, none,
            'check that Spark may rename the table, and run the model again; the new table is ' ~ finished)) }});
      end;
      {{ spark_bucketing.rename_sql(finished, relation) }};
    end;
  end
{%- endmacro %}


{#-
  Returns SQL that fails with PATH_NOT_FOUND if no directory matches a location or glob pattern. It names the path twice, because Spark
  searches a single path for streaming metadata, and logs a stack trace if the path does not exist.
-#}
{% macro validate_directory(location) -%}
  {%- set options = spark_bucketing.property_list({'path': location, 'recursiveFileLookup': true}) -%}
  select 1 from binaryFile.{{ spark_bucketing.quote_identifier(location) }} with {{ options }} where false
{%- endmacro %}
