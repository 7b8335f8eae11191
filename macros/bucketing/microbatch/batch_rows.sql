{#-
  Returns a subquery that selects the batch's rows if the node has an `event_time`, as dbt-core does. Otherwise, returns the relation. For the batch
  {empty: true}, the subquery returns no rows.

  With --empty and --sample, the relation already renders as a subquery. With --defer, the schema of the relation differs from the node's schema.
-#}
{% macro batch_rows(relation, node) -%}
  {%- if not node or not spark_bucketing.is_read_by_batches(node) -%}
    {{ return(relation) }}
  {%- endif -%}
  {%- set batch = context['__spark_bucketing_batch'] -%}
  {{ return('(select * from ' ~ relation ~ ' where ' ~ ('false' if batch.empty else spark_bucketing.batch_condition(node.config.event_time, batch)) ~ ')') }}
{%- endmacro %}


{#- Returns whether a batch reads only the batch's own rows from this node. -#}
{% macro is_read_by_batches(node) -%}
  {{ return(node.relation_name and node.config.event_time) }}
{%- endmacro %}
