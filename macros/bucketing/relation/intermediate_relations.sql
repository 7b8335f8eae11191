{#-
  Returns the intermediate tables of a relation, which exist only during a run, as a dict keyed by role:
    tmp      the new table, until it is swapped in
    build    external table with the new content of partitions, until it is published (docs/explanation/replacing-rows.md)
    staged   the new files of an organized table during a merge
    input    the rows of one run
    plan     the file plan of an organized table
    files    the file statistics of an organized table during a merge
    touched  the files that a merge replaces
    backup   the previous table, between the two renames of a swap
    trash    a table on a directory that the run deletes
  The next run drops leftovers of all roles except backup, and publishes the rest of a build that it finds half published.
-#}
{% macro intermediate_relations(relation) -%}
  {%- set relations = {} -%}
  {%- for role in ['backup', 'build', 'staged', 'tmp', 'input', 'plan', 'files', 'touched', 'trash'] -%}
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
