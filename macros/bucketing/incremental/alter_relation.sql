{#-
  What changes in a table that keeps its files: columns first, since its new buckets may be by one of them.

  change: from layout_changes()
-#}
{% macro alter_relation(relation, added, change, layout, existing) -%}
  {% do spark_bucketing.add_columns(relation, added) %}
  {%- if change == 'evolve' -%}
    {% do spark_bucketing.alter_buckets(relation, layout, existing) %}
  {%- endif -%}
{%- endmacro %}
