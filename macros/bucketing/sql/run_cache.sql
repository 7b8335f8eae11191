{#- Returns a dict that all models in a dbt run share. The dict stores results that do not change during a run. -#}
{% macro run_cache() -%}
  {%- set known = graph.setdefault('spark_bucketing', {}) -%}
  {#- One process may use the same graph for several runs. -#}
  {{ return(known.setdefault(invocation_id, {})) }}
{%- endmacro %}
