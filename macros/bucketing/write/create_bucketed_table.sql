{#-
  Creates an empty bucketed table, replacing a leftover of the same name.

  columns: list of {name, type, comment} in the order of the query; partition columns are moved to the end
  layout: from resolve_layout()
-#}
{% macro create_bucketed_table(relation, columns, layout) -%}
  {% do spark_bucketing.drop_relation_with_files(relation) %}
  {% do spark_bucketing.execute_sql(spark_bucketing.bucketed_table_ddl(relation, columns, layout)) %}
  {%- do context.setdefault('__spark_bucketing_made', {}).update({spark_bucketing.quote_relation(relation): layout.location_root is none}) -%}
{%- endmacro %}
