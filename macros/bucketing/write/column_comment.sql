{#-
  The description that `persist_docs: {columns: true}` puts on a column; none where the docs say nothing. Cut to what every database below
  a Hive metastore can hold; validate_docs() says so.
-#}
{% macro column_comment(column) -%}
  {%- if not config.persist_column_docs() -%}
    {{ return('') }}
  {%- endif -%}
  {%- for name, documented in model.columns.items() if name == column.name or (not documented.quote and name | lower == column.name | lower) -%}
    {%- set text = documented.description or '' -%}
    {{ return(text if spark_bucketing.utf16_length(text) <= 256 else text.encode('utf-16-le', 'surrogatepass')[:2 * 255].decode('utf-16-le', 'ignore') ~ '\u2026') }}
  {%- endfor -%}
  {{ return('') }}
{%- endmacro %}


{#- Length of a text as Java and the databases count it. -#}
{% macro utf16_length(text) -%}
  {{ return(text.encode('utf-16-le', 'surrogatepass') | length // 2) }}
{%- endmacro %}
