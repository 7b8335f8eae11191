{#- Returns the relation of a node. With --defer, returns the deferred relation if the node's own relation does not exist. -#}
{% macro graph_relation(node) -%}
  {%- set own = api.Relation.create(schema=node.schema, identifier=node.alias) -%}
  {%- if node.get('defer_relation') and load_relation(own) is none -%}
    {{ return(api.Relation.create(schema=node.defer_relation.schema, identifier=node.defer_relation.alias)) }}
  {%- endif -%}
  {{ return(own) }}
{%- endmacro %}
