{#-
  Sets a property on a table after all of its rows have been written. Setting the property makes the metastore store the table's size, which dbt's
  catalog shows. An INSERT alone does not store the size. If the metastore cannot alter the table, the run fails while the previous table is still in
  place.
-#}
{% macro mark_written(relation) -%}
  {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ " set tblproperties ('bucketing.written' = 'true')") %}
{%- endmacro %}
