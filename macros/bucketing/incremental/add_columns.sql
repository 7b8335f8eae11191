{% macro add_columns(relation, columns) -%}
  {%- if columns -%}
    {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' add columns (' ~ spark_bucketing.column_definitions(columns, []) ~ ')') %}
  {%- endif -%}
{%- endmacro %}
