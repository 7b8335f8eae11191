{#-
  Puts a finished table in the place of the model's relation; the previous one, if any, becomes the backup and is dropped.

  The two renames are one statement for dbt, a SQL script that renames back when the second one fails. Should the whole
  process crash between them, recover_relation() restores the backup in the next run; without scripts also when the second one fails. A
  previous table whose directory is gone has nothing to keep, and cannot be renamed: it is dropped, and so is a view of what is gone. A
  directory in the backup's place is never deleted, for it may hold the only copy of the rows (raise_interrupted_rename).

  An error of the metastore has no SQLSTATE: Spark looks for a handler by it, in any script, and fails with a NullPointerException in its
  place. So whether the metastore lets these tables be altered is tried before: the new one by mark_written(), the previous one here,
  unless this package has built it. What Spark itself finds, such as a table or a directory in the way, has one.

  existing: table_layout() of what is replaced, or none
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
      {% do spark_bucketing.swap_by_statements(finished, relation, backup, existing) %}
    {%- endif -%}
    {#- Staged rows were for the previous table, and the backup beside the new one is what tells so: it goes last. -#}
    {% do spark_bucketing.drop_relation_with_files(spark_bucketing.intermediate_relation(relation, 'staged')) %}
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
          select raise_error({{ spark_bucketing.string_literal('The previous ' ~ relation ~ ' could not be renamed, and is as it was. The new one is ' ~ finished ~ '.') }});
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
        select raise_error({{ spark_bucketing.string_literal('The new ' ~ relation ~ ' could not be renamed into place; the previous one is back'
            ~ (', unless it was a view of what is gone' if existing.type == 'view' else '') ~ '. The new one is ' ~ finished ~ '.') }});
      end;
      {{ spark_bucketing.rename_sql(finished, relation) }};
    end;
  end
{%- endmacro %}


{#- The same without a script, but for the way back. What cannot be renamed is found beforehand. -#}
{% macro swap_by_statements(finished, relation, backup, existing) -%}
  {%- set quoted = spark_bucketing.quote_relation(relation) -%}
  {%- set error = spark_bucketing.planning_error('select * from ' ~ quoted) -%}
  {%- set gone = ('TABLE_OR_VIEW_NOT_FOUND' if existing.type == 'view' else 'PATH_NOT_FOUND') in error -%}
  {% do spark_bucketing.execute_sql('drop ' ~ existing.type ~ ' if exists ' ~ quoted if gone else spark_bucketing.rename_sql(relation, backup, existing.type)) %}
  {% do spark_bucketing.execute_sql(spark_bucketing.rename_sql(finished, relation)) %}
{%- endmacro %}


{#-
  SQL that fails with PATH_NOT_FOUND when there is no such directory; a pattern stands for several. It names the path twice, since Spark logs
  a stack trace for a single path that does not exist, while it looks for the metadata of a stream there.
-#}
{% macro validate_directory(location) -%}
  {%- set options = spark_bucketing.property_list({'path': location, 'recursiveFileLookup': true}) -%}
  select 1 from binaryFile.{{ spark_bucketing.quote_identifier(location) }} with {{ options }} where false
{%- endmacro %}
