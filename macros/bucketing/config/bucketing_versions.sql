{#- Returns the table property bucketing_version of each hash of the Hive layout. The Spark layout has none. -#}
{% macro bucketing_versions() -%}
  {{ return({'hive': '1', 'hive2': '2'}) }}
{%- endmacro %}
