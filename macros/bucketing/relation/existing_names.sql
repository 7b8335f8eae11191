{#- Which of these names are tables or views in the schema right now: asked of the metastore, since dbt's cache is older. -#}
{% macro existing_names(relation, identifiers) -%}
  {%- set pattern = identifiers | join('|') -%}
  {%- set found = [] -%}
  {%- for row in run_query('show tables in ' ~ spark_bucketing.quote_identifier(relation.schema) ~ ' like ' ~ spark_bucketing.string_literal(pattern)).rows -%}
    {%- if (row[2] | string | lower) != 'true' -%}
      {%- do found.append(row[1] | lower) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(found) }}
{%- endmacro %}
