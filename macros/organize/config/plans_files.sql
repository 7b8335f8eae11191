{#- Returns whether the session extension can plan the files of a write. It supports only the strategy `exact`. -#}
{% macro plans_files(layout) -%}
  {{ return(not layout.clustered_by and layout.file_strategy == 'exact' and spark_bucketing.distributes_writes(layout)) }}
{%- endmacro %}
