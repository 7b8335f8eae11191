{#-
  The relation itself unless it has an `event_time`; then, as in dbt-core, a subquery of the batch's rows. With --empty
  and --sample, the relation prints as a subquery already.
-#}
{% macro rows_of_batch(relation) -%}
  {%- for id in model.depends_on.nodes -%}
    {%- set node = graph.nodes.get(id) or graph.sources.get(id) -%}
    {%- if node and node.relation_name and node.config.event_time
        and node.schema == relation.schema and (node.identifier or node.alias) == relation.identifier -%}
      {{ return('(select * from ' ~ relation ~ ' where ' ~ spark_bucketing.batch_condition(node.config.event_time, context['__spark_bucketing_batch']) ~ ')') }}
    {%- endif -%}
  {%- endfor -%}
  {{ return(relation) }}
{%- endmacro %}
