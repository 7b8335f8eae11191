{#- What one dbt run needs to ask only once: a dictionary that lives as long as the graph of nodes, which all of them share. -#}
{% macro run_cache() -%}
  {%- do graph.setdefault('spark_bucketing', {}) -%}
  {{ return(graph['spark_bucketing']) }}
{%- endmacro %}
