{#-
  Sets a property on a completely written table, so that the metastore records the table's size for dbt's catalog. An INSERT alone does not record
  the size. If the metastore cannot alter the table, the run fails while the previous table is still in place.
-#}
{% macro mark_written(relation) -%}
  {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ " set tblproperties ('bucketing.written' = 'true')") %}
{%- endmacro %}
