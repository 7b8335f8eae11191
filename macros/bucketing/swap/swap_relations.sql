{#-
  Puts a finished table in the place of the model's relation; the previous one, if any, becomes the backup and is dropped.

  The two renames are one statement for dbt, a SQL script that renames back when the second one fails. Should the whole
  process die between them, recover_relation() restores the backup in the next run. A previous table whose directory is
  gone has nothing to keep, and cannot be renamed: it is dropped. A directory in the backup's place is never deleted, for it
  may hold the only copy of the rows (validate_backup_location).

  An error of the metastore loses its words within a script, and its handler is not called. So whether the metastore lets these tables be
  altered is tried before: the new one by mark_written(), the previous one here, unless this package has built it.

  existing: table_layout() of what is replaced, or none
-#}
{% macro swap_relations(finished, relation, existing) -%}
  {%- set backup = spark_bucketing.sibling(relation, 'backup') -%}
  {%- set rename_in = 'alter table ' ~ spark_bucketing.quote_relation(finished) ~ ' rename to ' ~ spark_bucketing.quote_relation(relation) -%}
  {%- set is_gone = existing and existing.type == 'table' and existing.location | default('', true) == spark_bucketing.default_location(relation)
      and relation.identifier | lower not in spark_bucketing.taken_locations() -%}
  {%- if is_gone -%}
    {% do spark_bucketing.validate_backup_location(relation) %}
    {% do spark_bucketing.drop_relation_with_files(relation, existing) %}
  {%- endif -%}
  {%- if existing is none or is_gone -%}
    {% do spark_bucketing.execute_sql(rename_in) %}
  {%- else -%}
    {%- set alter = 'alter ' ~ existing.type ~ ' ' -%}
    {%- if not existing.build -%}
      {% do spark_bucketing.execute_sql(alter ~ spark_bucketing.quote_relation(relation) ~ " set tblproperties ('bucketing.replaced' = 'true')") %}
    {%- endif -%}
    {%- set swap -%}
      begin
        {{ alter }} {{ spark_bucketing.quote_relation(relation) }} rename to {{ spark_bucketing.quote_relation(backup) }};
        begin
          declare exit handler for sqlexception
          begin
            {{ alter }} {{ spark_bucketing.quote_relation(backup) }} rename to {{ spark_bucketing.quote_relation(relation) }};
            select raise_error({{ spark_bucketing.string_literal('The new ' ~ relation ~ ' could not be renamed into place; the previous one is back. The new one is ' ~ finished ~ '.') }});
          end;
          {{ rename_in }};
        end;
      end
    {%- endset -%}
    {% do spark_bucketing.execute_sql(swap, 'swap') %}
  {%- endif -%}
  {%- if existing -%}
    {#- Staged rows were for the previous table, and the backup beside the new one is what tells so: it goes last. -#}
    {% do spark_bucketing.drop_relation_with_files(spark_bucketing.sibling(relation, 'staged')) %}
    {%- if not is_gone -%}
      {% do spark_bucketing.drop_relation_with_files(backup, existing) %}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}
