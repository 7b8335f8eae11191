{#-
  Cleans up after a run that crashed, and returns the table_layout() of what the model's relation is now, or none.
    backup without the relation   crashed within a swap: the backup is the table. So it is where the relation has no directory, since the
                                  metastore has written the second rename down and taken back the move
    backup beside the relation    crashed after a swap: the backup is worthless
    staged                        crashed while partitions were replaced: complete_replacement(), unless this run rebuilds
                                  the table (then build_table() drops it, once the table is swapped in)
    others                        crashed while building; so is a directory of one that has no table, which CREATE TABLE would stumble over

  rebuild: whether this run is to build the whole table
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
      {#- Staged rows beside them were for the table that is the backup now. -#}
      {% do spark_bucketing.drop_relation_with_files(roles.staged) %}
      {%- set found = found | reject('equalto', roles.staged.identifier | lower) | list -%}
      {% do spark_bucketing.drop_relation_with_files(roles.backup) %}
    {%- else -%}
      {%- set backup = spark_bucketing.table_layout(roles.backup) -%}
      {%- if backup.type == 'table' and not backup.external and spark_bucketing.directory_exists(spark_bucketing.default_location(relation)) -%}
        {% do spark_bucketing.raise_interrupted_rename(roles.backup, relation) %}
      {%- endif -%}
      {% do log("Restoring " ~ relation ~ " from its backup: an earlier run crashed while replacing it.", info=true) %}
      {% do spark_bucketing.execute_sql(spark_bucketing.rename_sql(roles.backup, relation, backup.type)) %}
      {%- set state.exists = true -%}
    {%- endif -%}
  {%- endif -%}
  {%- for role, leftover in roles.items() if role not in ['backup', 'staged'] and leftover.identifier | lower in found -%}
    {% do log(leftover ~ ' is dropped: a run of this model has crashed, or is still going on. Then that one fails, and '
        ~ relation ~ ' loses nothing; run one at a time.', info=true) %}
    {% do spark_bucketing.drop_relation_with_files(leftover) %}
  {%- endfor -%}
  {%- set existing = spark_bucketing.table_layout(relation) if state.exists else none -%}
  {%- set absent = roles.values() | reject('equalto', roles.staged if roles.staged.identifier | lower in found else none) | list -%}
  {%- set strays = spark_bucketing.stray_directories(absent) -%}
  {%- if roles.backup in strays and existing and existing.type == 'table' and not existing.external -%}
    {% do spark_bucketing.raise_interrupted_rename(relation, roles.backup) %}
  {%- endif -%}
  {%- for stray in strays | reject('equalto', roles.backup) -%}
    {%- for statement in spark_bucketing.delete_directory(spark_bucketing.default_location(stray)) -%}
      {% do spark_bucketing.execute_sql(statement) %}
    {%- endfor -%}
  {%- endfor -%}
  {%- if existing and existing.type == 'table' and not rebuild -%}
    {#- Its rows are going to be read: those of files that the session has not listed yet as well. -#}
    {% do spark_bucketing.execute_sql('refresh table ' ~ spark_bucketing.quote_relation(relation)) %}
  {%- endif -%}
  {%- if roles.staged.identifier | lower in found -%}
    {%- if not existing or existing.type != 'table' -%}
      {% do spark_bucketing.drop_relation_with_files(roles.staged) %}
    {%- elif not rebuild -%}
      {% do spark_bucketing.complete_replacement(relation, existing) %}
    {%- endif -%}
  {%- endif -%}
  {{ return(existing) }}
{%- endmacro %}
