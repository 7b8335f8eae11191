{#- Returns INSERT INTO up to the query. -#}
{% macro insert_clause(relation, layout) -%}
  insert into table {{ spark_bucketing.quote_relation(relation) }}
  {%- if layout.partition_by %}
  partition ({{ spark_bucketing.quote_columns(layout.partition_by) }})
  {%- endif %}
{%- endmacro %}
