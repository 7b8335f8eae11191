{% macro model_view_name() -%}
  {{ return(spark_bucketing.quote_identifier('__dbt_' ~ this.schema ~ '_' ~ this.identifier)) }}
{%- endmacro %}
