{#-
  Cleans up after a run that died, and returns the table_layout() of what the model's relation is now, or none.
    backup without the relation   died within a swap: the backup is the table
    backup beside the relation    died after a swap: the backup is worthless
    staged                        died while touched partitions were replaced: replace them again
    tmp, input, emptied           died while building
-#}
{% macro recover_relation(relation) -%}
  {%- set roles = {} -%}
  {%- for role in ['backup', 'staged', 'emptied', 'tmp', 'input', 'trash'] -%}
    {%- do roles.update({role: spark_bucketing.sibling(relation, role)}) -%}
  {%- endfor -%}
  {%- set identifiers = [relation.identifier] -%}
  {%- for role, beside in roles.items() -%}
    {%- do identifiers.append(beside.identifier) -%}
  {%- endfor -%}
  {%- set found = spark_bucketing.existing_names(relation, identifiers) -%}
  {%- set state = namespace(exists=relation.identifier | lower in found) -%}
  {%- if roles.backup.identifier | lower in found -%}
    {%- if state.exists -%}
      {% do spark_bucketing.drop_relation_with_files(roles.backup) %}
    {%- else -%}
      {% do log("Restoring " ~ relation ~ " from its backup: an earlier run died while replacing it.", info=true) %}
      {%- set backup_type = spark_bucketing.table_layout(roles.backup).type -%}
      {% do spark_bucketing.execute_sql('alter ' ~ backup_type ~ ' ' ~ spark_bucketing.quote_relation(roles.backup)
          ~ ' rename to ' ~ spark_bucketing.quote_relation(relation)) %}
      {%- set state.exists = true -%}
    {%- endif -%}
  {%- endif -%}
  {%- for role in ['tmp', 'input', 'trash'] if roles[role].identifier | lower in found -%}
    {% do spark_bucketing.drop_relation_with_files(roles[role]) %}
  {%- endfor -%}
  {%- set existing = spark_bucketing.table_layout(relation) if state.exists else none -%}
  {%- if roles.staged.identifier | lower in found -%}
    {%- if existing and existing.type == 'table' -%}
      {% do log("Completing an earlier run of " ~ relation ~ " that died while replacing partitions.", info=true) %}
      {% do spark_bucketing.replace_touched_partitions(relation) %}
    {%- else -%}
      {% do spark_bucketing.drop_relation_with_files(roles.staged) %}
    {%- endif -%}
  {%- endif -%}
  {%- if roles.emptied.identifier | lower in found -%}
    {% do spark_bucketing.drop_relation_with_files(roles.emptied) %}
  {%- endif -%}
  {{ return(existing) }}
{%- endmacro %}
