{% macro batch_ref() -%}
  {%- set relation = builtins.ref(*varargs, **kwargs) -%}
  {%- set version = kwargs.get('v', kwargs.get('version')) -%}
  {%- for id in model.depends_on.nodes -%}
    {%- set node = graph.nodes.get(id) -%}
    {%- if node and node.name == varargs[-1] and (varargs | length == 1 or node.package_name == varargs[0]) -%}
      {%- set version = node.latest_version if version is none else version -%}
      {%- if node.version is none or node.version | string == version | string -%}
        {{ return(spark_bucketing.batch_rows(relation, node)) }}
      {%- endif -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(relation) }}
{%- endmacro %}
