{#-
  Alters a table whose rows are all there, as a write does that leaves a seal in the table (and not in its partitions). The metastore then takes its size down, which it does not
  for an INSERT, and which is the size in dbt's catalog; and should it refuse to alter this table at all, it says so while the
  previous one is still in its place.
-#}
{% macro mark_written(relation) -%}
  {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ " set tblproperties ('bucketing.written' = 'true')") %}
{%- endmacro %}
