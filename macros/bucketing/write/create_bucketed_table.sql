{#-
  Creates an empty table, after dropping any leftover table with the same name.

  columns: list of {name, type, comment} in the order of the query; the table has the partition columns last
  layout: dict, from resolve_layout() or resolve_organized_layout()
-#}
{% macro create_bucketed_table(relation, columns, layout) -%}
  {% do spark_bucketing.drop_relation_with_files(relation) %}
  {% do spark_bucketing.execute_sql(spark_bucketing.bucketed_table_ddl(relation, columns, layout)) %}
  {%- do context.setdefault('__spark_bucketing_made', {}).update({spark_bucketing.quote_relation(relation): layout.location_root is none}) -%}
{%- endmacro %}
