{#-
  Swaps a finished table in, and drops what only the previous one needed.

  existing: table_layout() of what is replaced, or none
-#}
{% macro replace_relation(finished, relation, existing) -%}
  {% do spark_bucketing.swap_relations(finished, relation, existing) %}
{%- endmacro %}
