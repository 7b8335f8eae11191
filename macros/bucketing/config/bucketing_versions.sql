{#- Returns the table property bucketing_version for each hash of the Hive layout. Tables in the Spark layout have no such property. -#}
{% macro bucketing_versions() -%}
  {{ return({'hive': '1', 'hive2': '2'}) }}
{%- endmacro %}
