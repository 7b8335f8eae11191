{#- Relation of a node; under --defer, when there is nothing in its own place, that of the deferred-to state. -#}
{% macro graph_relation(node) -%}
  {%- set own = api.Relation.create(schema=node.schema, identifier=node.alias) -%}
  {%- if node.get('defer_relation') and load_relation(own) is none -%}
    {{ return(api.Relation.create(schema=node.defer_relation.schema, identifier=node.defer_relation.alias)) }}
  {%- endif -%}
  {{ return(own) }}
{%- endmacro %}
