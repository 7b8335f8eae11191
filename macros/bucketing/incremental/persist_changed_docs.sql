{#- Updates the changed comments of a table that was not rebuilt. Spark cannot change the comment of a partition column. -#}
{% macro persist_changed_docs(relation) -%}
  {%- if not config.persist_relation_docs() and not config.persist_column_docs() -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set existing = spark_bucketing.table_layout(relation) -%}
  {%- if config.persist_relation_docs() and (model.description or '') != existing.comment -%}
    {% do spark_bucketing.execute_sql('comment on table ' ~ spark_bucketing.quote_relation(relation) ~ ' is ' ~ spark_bucketing.string_literal(model.description)) %}
  {%- endif -%}
  {%- if config.persist_column_docs() -%}
    {%- set partition_names = existing.partition_by | map('lower') | list -%}
    {%- for column in spark_bucketing.table_columns(spark_bucketing.quote_relation(relation)) if column.name | lower not in partition_names -%}
      {%- if spark_bucketing.column_comment(column) != column.comment -%}
        {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' alter column ' ~ spark_bucketing.quote_identifier(column.name)
            ~ ' comment ' ~ spark_bucketing.string_literal(spark_bucketing.column_comment(column))) %}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
{%- endmacro %}
