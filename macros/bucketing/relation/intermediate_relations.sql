{#-
  The tables that exist only while a model is built, by role:
    tmp      under construction; worthless when found
    staged   all rows of partitions that are to be replaced; when found, written over the table's if it says what it replaces, else dropped
             (docs/explanation/replacing-rows.md)
    input    the rows of one run; worthless when found
    plan     which files the partitions of an organized table get; worthless when found
    files    what is in an organized table's files, while rows are merged into it; worthless when found
    touched  which of them are replaced; worthless when found
    backup   the previous table, between the two renames of a swap
    trash    owns a directory that is to be deleted
-#}
{% macro intermediate_relations(relation) -%}
  {%- set relations = {} -%}
  {%- for role in ['backup', 'staged', 'tmp', 'input', 'plan', 'files', 'touched', 'trash'] -%}
    {%- set suffix = '__dbt_' ~ role -%}
    {%- set name = relation.identifier -%}
    {#- The metastore's limit is 128 characters. -#}
    {%- if name | length + suffix | length > 128 -%}
      {%- set name = name[:80] ~ '_' ~ local_md5(name) -%}
    {%- endif -%}
    {%- do relations.update({role: api.Relation.create(database=relation.database, schema=relation.schema, identifier=name ~ suffix, type='table')}) -%}
  {%- endfor -%}
  {{ return(relations) }}
{%- endmacro %}
