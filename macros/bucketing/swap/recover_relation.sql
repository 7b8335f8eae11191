{#-
  Cleans up after a crashed run, and returns table_layout() of the model's relation, or none.
    backup without the relation   crashed during a swap: restores the backup. A relation without a directory counts as missing, because the
                                  metastore can commit the second rename and still move the directory back
    backup and the relation       crashed after a swap: drops the backup
    others                        crashed during a build: drops them, and deletes directories without a table, in which CREATE TABLE would fail

  rebuild: bool, whether this run rebuilds the table
-#}
{% macro recover_relation(relation, rebuild) -%}
  {%- set roles = spark_bucketing.intermediate_relations(relation) -%}
  {% do spark_bucketing.validate_intermediate_names(relation, roles.values() | list) %}
  {%- set found = spark_bucketing.existing_names(relation, [relation.identifier] + roles.values() | map(attribute='identifier') | list) -%}
  {%- set state = namespace(exists=relation.identifier | lower in found) -%}
  {%- if roles.backup.identifier | lower in found -%}
    {%- set owned = spark_bucketing.table_layout(relation) if state.exists else {'external': true} -%}
    {%- if owned.type == 'table' and not owned.external and not spark_bucketing.directory_exists(owned.location) -%}
      {% do spark_bucketing.execute_sql('drop table if exists ' ~ spark_bucketing.quote_relation(relation)) %}
      {%- set state.exists = false -%}
    {%- endif -%}
    {%- if state.exists -%}
      {% do spark_bucketing.drop_relation_with_files(roles.backup) %}
    {%- else -%}
      {%- set backup = spark_bucketing.table_layout(roles.backup) -%}
      {%- if backup.type == 'table' and not backup.external and spark_bucketing.directory_exists(spark_bucketing.default_location(relation)) -%}
        {% do spark_bucketing.raise_interrupted_rename(roles.backup, relation) %}
      {%- endif -%}
      {% do log("Restoring " ~ relation ~ " from its backup, because an earlier run crashed while it replaced the table.", info=true) %}
      {% do spark_bucketing.execute_sql(spark_bucketing.rename_sql(roles.backup, relation, backup.type)) %}
      {%- set state.exists = true -%}
    {%- endif -%}
  {%- endif -%}
  {%- for role, leftover in roles.items() if role != 'backup' and leftover.identifier | lower in found -%}
    {% do log('Dropping ' ~ leftover ~ ', which another run of this model left behind or still uses. If that run is still active, it will fail, and '
        ~ relation ~ ' keeps its rows. Run a model only once at a time.', info=true) %}
    {% do spark_bucketing.drop_relation_with_files(leftover) %}
  {%- endfor -%}
  {%- set existing = spark_bucketing.table_layout(relation) if state.exists else none -%}
  {%- set strays = spark_bucketing.stray_directories(roles.values() | list) -%}
  {%- if roles.backup in strays and existing and existing.type == 'table' and not existing.external -%}
    {% do spark_bucketing.raise_interrupted_rename(relation, roles.backup) %}
  {%- endif -%}
  {%- for stray in strays | reject('equalto', roles.backup) -%}
    {%- for statement in spark_bucketing.delete_directory(spark_bucketing.default_location(stray)) -%}
      {% do spark_bucketing.execute_sql(statement) %}
    {%- endfor -%}
  {%- endfor -%}
  {%- if existing and existing.type == 'table' and not rebuild -%}
    {#- This run reads the table's rows, including files that are missing in the session's cached listing. -#}
    {% do spark_bucketing.execute_sql('refresh table ' ~ spark_bucketing.quote_relation(relation)) %}
  {%- endif -%}
  {{ return(existing) }}
{%- endmacro %}
