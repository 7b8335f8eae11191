{#-
  Returns the given names that exist as tables or views in the schema. The macro queries the metastore, because dbt's cache may be stale.

  Afterwards, known_relation() returns the metadata of each relation, until a statement of this model mentions the relation.
-#}
{% macro existing_names(relation, identifiers) -%}
  {%- set pattern = identifiers | join('|') -%}
  {%- set known = context.setdefault('__spark_bucketing_relations', {}) -%}
  {%- for name in identifiers -%}
    {%- do known.update({relation.schema ~ '.' ~ name | lower: false}) -%}
  {%- endfor -%}
  {%- set found = [] -%}
  {%- for row in run_query('show table extended in ' ~ spark_bucketing.quote_identifier(relation.schema) ~ ' like ' ~ spark_bucketing.string_literal(pattern)).rows -%}
    {%- if (row[2] | string | lower) != 'true' -%}
      {%- do found.append(row[1] | lower) -%}
      {%- do known.update({relation.schema ~ '.' ~ row[1] | lower: row[3]}) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(found) }}
{%- endmacro %}


{#-
  Returns the metadata of a relation that existing_names() found, as text. Returns false if the relation did not exist, and none if the metadata may
  be stale.
-#}
{% macro known_relation(relation) -%}
  {{ return(context.get('__spark_bucketing_relations', {}).get(relation.schema ~ '.' ~ relation.identifier | lower)) }}
{%- endmacro %}


{#- Discards the cached metadata of all relations that a statement mentions, because the statement may change them. -#}
{% macro forget_relations(sql) -%}
  {%- set known = context.get('__spark_bucketing_relations', {}) -%}
  {%- for name in known.keys() | list if '`' ~ name.split('.', 1)[1] ~ '`' in sql | lower -%}
    {%- do known.pop(name) -%}
  {%- endfor -%}
  {%- set described = context.get('__spark_bucketing_columns', {}) -%}
  {%- for name in described.keys() | list if name.split('.', 1)[1] in sql -%}
    {%- do described.pop(name) -%}
  {%- endfor -%}
{%- endmacro %}
