{#-
  Puts a finished table in the place of the model's relation; the previous one, if any, becomes the backup.

  The two renames are one statement for dbt, a SQL script that renames back when the second one fails. Should the whole
  process die between them, recover_relation() restores the backup in the next run. A previous table whose directory is
  gone has nothing to keep, and cannot be renamed: it is dropped. A directory in the backup's place is never deleted, for it
  may hold the only copy of the rows (validate_backup_location).

  existing_type: 'table', 'view', or none when there is nothing to replace
-#}
{% macro swap_relations(finished, relation, existing_type) -%}
  {%- set backup = spark_bucketing.sibling(relation, 'backup') -%}
  {%- set rename_in = 'alter table ' ~ spark_bucketing.quote_relation(finished) ~ ' rename to ' ~ spark_bucketing.quote_relation(relation) -%}
  {%- set rename_out = 'alter ' ~ existing_type ~ ' ' ~ spark_bucketing.quote_relation(relation) ~ ' rename to ' ~ spark_bucketing.quote_relation(backup) -%}
  {%- if existing_type is none -%}
    {% do spark_bucketing.execute_sql(rename_in) %}
  {%- else -%}
    {% call statement('swap', auto_begin=False) -%}
      begin
        begin
          {%- if existing_type == 'table' %}
          declare exit handler for PATH_NOT_FOUND
          begin
            drop table {{ spark_bucketing.quote_relation(relation) }};
          end;
          {%- endif %}
          {{ rename_out }};
        end;
        begin
          declare exit handler for sqlexception
          begin
            alter {{ existing_type }} {{ spark_bucketing.quote_relation(backup) }} rename to {{ spark_bucketing.quote_relation(relation) }};
            select raise_error({{ spark_bucketing.string_literal('The new ' ~ relation ~ ' could not be renamed into place; the previous one is back. The new one is ' ~ finished ~ '.') }});
          end;
          {{ rename_in }};
        end;
      end
    {%- endcall %}
    {% do spark_bucketing.drop_relation_with_files(backup) %}
  {%- endif -%}
{%- endmacro %}
