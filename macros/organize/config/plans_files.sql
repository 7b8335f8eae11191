{#-
  Returns whether the session extension can plan the files of a write. It supports only the strategy `exact`, and does not know the boundaries of other
  tables.
-#}
{% macro plans_files(layout) -%}
  {{ return(not layout.clustered_by and layout.file_strategy == 'exact' and not layout.range_boundaries_from and spark_bucketing.distributes_writes(layout)) }}
{%- endmacro %}
