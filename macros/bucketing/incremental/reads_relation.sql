{#- Returns whether a query reads a table, directly or through views. The analyzed plan names all relations. -#}
{% macro reads_relation(view, relation) -%}
  {%- set plan = run_query('explain extended select * from ' ~ view).rows[0][0] | lower -%}
  {{ return((relation.schema ~ '.' ~ relation.identifier) | lower in plan) }}
{%- endmacro %}
