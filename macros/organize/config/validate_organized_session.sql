{#- Raises an error unless the session can write organized tables. The extension writes their files in its INSERT statements. -#}
{% macro validate_organized_session(layout) -%}
  {% do spark_bucketing.validate_session(keeps_rows=true) %}
  {% do spark_bucketing.require_extension('materialized', layout.materialized, 'stock Spark cannot write files of a chosen size or range', "materialized='table'"
      if layout.materialized == 'organized_table' else "materialized='incremental'") %}
  {%- for name in ['distribute', 'atomic'] if not spark_bucketing.has_other_strategy(layout) -%}
    {%- set key = 'spark.bucketing.write.' ~ name -%}
    {%- set found = spark_bucketing.session_settings().get(key | lower) -%}
    {%- if found and found[1] | lower != 'true' -%}
      {% do spark_bucketing.raise_session_error(key ~ ' = ' ~ found[1], 'true, so that INSERT writes the files of an organized table', 'set ' ~ key ~ '=true') %}
    {%- endif -%}
  {%- endfor -%}
{%- endmacro %}
