{#-
  Returns the comment that `persist_docs: {columns: true}` adds to a column, or an empty string. The macro truncates the description to a length that
  the database of every Hive metastore can store. validate_docs() warns about truncated descriptions.
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


{#- Returns the length of a text in UTF-16 code units, in which Java and the databases measure the length. -#}
{% macro utf16_length(text) -%}
  {{ return(text.encode('utf-16-le', 'surrogatepass') | length // 2) }}
{%- endmacro %}
