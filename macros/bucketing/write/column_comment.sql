{#- The description that `persist_docs: {columns: true}` puts on a column; none where the docs say nothing. -#}
{% macro column_comment(column) -%}
  {%- if not config.persist_column_docs() -%}
    {{ return('') }}
  {%- endif -%}
  {%- for name, documented in model.columns.items() if name | lower == column.name | lower -%}
    {{ return(documented.description or '') }}
  {%- endfor -%}
  {{ return('') }}
{%- endmacro %}
