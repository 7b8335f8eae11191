{#-
  Makes a temporary view of the model's SQL and returns its quoted name. In a view, whatever a query may contain or end
  with stays inside; its columns can be described, and Spark's error positions are those of the model.
-#}
{% macro model_view(sql) -%}
  {%- if config.get('contract').enforced -%}
    {% do get_assert_columns_equivalent(sql) %}
    {%- set sql = get_select_subquery(sql) -%}
  {%- endif -%}
  {%- set name = spark_bucketing.model_view_name() -%}
  {% do spark_bucketing.execute_sql('create or replace temporary view ' ~ name ~ ' as\n' ~ sql) %}
  {{ return(name) }}
{%- endmacro %}
