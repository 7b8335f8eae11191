{#-
  Which of these names are tables or views in the schema right now: asked of the metastore, since dbt's cache is older. What it says
  of them is remembered until a statement of this model names them, see known_relation().
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


{#- What existing_names() has found of a relation, as text; false where there was none, and none where it is not known any more. -#}
{% macro known_relation(relation) -%}
  {{ return(context.get('__spark_bucketing_relations', {}).get(relation.schema ~ '.' ~ relation.identifier | lower)) }}
{%- endmacro %}


{#- Whatever a statement that defines something names may be another thing afterwards; those that write rows leave a table what it is. -#}
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
