{% macro drop_model_view() -%}
  {% do spark_bucketing.execute_sql('drop view if exists ' ~ spark_bucketing.model_view_name()) %}
{%- endmacro %}
