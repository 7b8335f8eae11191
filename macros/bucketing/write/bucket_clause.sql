{#- Returns the CLUSTERED BY clause for CREATE TABLE and ALTER TABLE. -#}
{% macro bucket_clause(layout) -%}
  {%- set sorted_by = 'sorted by (' ~ spark_bucketing.quote_columns(layout.sorted_by) ~ ') ' if layout.sorted_by else '' -%}
  {{ return('clustered by (' ~ spark_bucketing.quote_columns(layout.clustered_by) ~ ') ' ~ sorted_by ~ 'into ' ~ layout.buckets ~ ' buckets') }}
{%- endmacro %}
