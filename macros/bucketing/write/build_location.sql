{#-
  Where a table with `location_root` keeps its files: a new directory for every build, below location_root/alias. The
  previous build's files stay untouched until the new table is complete, and no rename has to move data.
-#}
{% macro build_location(relation, layout) -%}
  {%- if not layout.location_root -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set id = 'build-' ~ modules.datetime.datetime.now().strftime('%Y%m%d%H%M%S%f') -%}
  {%- set root = layout.location_root.rstrip('/') ~ '/' ~ model.alias -%}
  {{ return({'id': id, 'location': root ~ '/' ~ id}) }}
{%- endmacro %}
