{% macro table_comment_clause() -%}
  {%- if config.persist_relation_docs() and model.description -%}
    comment {{ spark_bucketing.string_literal(model.description) }}
  {%- endif -%}
{%- endmacro %}
