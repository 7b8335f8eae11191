{#-
  Returns the intermediate tables of a relation, which exist only during a run, as a dict keyed by role:
    tmp      the new table, until it is swapped in
    input    the rows of one run
    backup   the previous table, between the two renames of a swap
    trash    a table whose directory the run deletes by dropping the table
  The next run drops leftover tables of all roles except backup.
-#}
{% macro intermediate_relations(relation) -%}
  {%- set relations = {} -%}
  {%- for role in ['backup', 'tmp', 'input', 'trash'] -%}
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
