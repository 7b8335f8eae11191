{#- Warns once per model about column descriptions that the table cannot store unchanged. As in dbt, `quote: true` makes a name case-sensitive. -#}
{% macro validate_docs(columns) -%}
  {%- if config.persist_column_docs() and '__spark_bucketing_docs' not in context -%}
    {%- do context.update({'__spark_bucketing_docs': true}) -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- set missing = [] -%}
    {%- set long = [] -%}
    {%- for name, documented in model.columns.items() -%}
      {%- if name not in names and (documented.quote or name | lower not in names | map('lower') | list) -%}
        {%- do missing.append(name) -%}
      {%- elif spark_bucketing.utf16_length(documented.description or '') > 256 -%}
        {%- do long.append(name) -%}
      {%- endif -%}
    {%- endfor -%}
    {%- if missing -%}
      {% do exceptions.warn("Model `" ~ model.name ~ "`: The following columns are specified in the schema but are not present in the database: " ~ missing | join(', ')) %}
    {%- endif -%}
    {%- if long -%}
      {% do exceptions.warn("Model `" ~ model.name ~ "`: The metastore stores at most 256 characters of a column description. The run truncates the descriptions of these columns: "
          ~ long | join(', ')) %}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}
