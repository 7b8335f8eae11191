{#- What one dbt run needs to ask only once: a dictionary in the graph of nodes, which all of them share. -#}
{% macro run_cache() -%}
  {%- set known = graph.setdefault('spark_bucketing', {}) -%}
  {#- A process may run several times with one graph. -#}
  {{ return(known.setdefault(invocation_id, {})) }}
{%- endmacro %}
