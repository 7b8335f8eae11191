{% macro batch_source() -%}
  {%- set relation = builtins.source(*varargs, **kwargs) -%}
  {%- for id in model.depends_on.nodes -%}
    {%- set node = graph.sources.get(id) -%}
    {%- if node and node.source_name == varargs[0] and node.name == varargs[1] -%}
      {{ return(spark_bucketing.batch_rows(relation, node)) }}
    {%- endif -%}
  {%- endfor -%}
  {{ return(relation) }}
{%- endmacro %}
