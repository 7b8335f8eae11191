{#-
  The relation itself unless its node has an `event_time`; then, as in dbt-core, a subquery of the batch's rows, or of none where the batch
  is {empty: true}. With --empty and --sample, the relation prints as a subquery already; with --defer, it is in another schema than its node.
-#}
{% macro batch_rows(relation, node) -%}
  {%- if not node or not spark_bucketing.is_read_by_batches(node) -%}
    {{ return(relation) }}
  {%- endif -%}
  {%- set batch = context['__spark_bucketing_batch'] -%}
  {{ return('(select * from ' ~ relation ~ ' where ' ~ ('false' if batch.empty else spark_bucketing.batch_condition(node.config.event_time, batch)) ~ ')') }}
{%- endmacro %}


{#- Whether a batch reads only its own rows of this node of the graph. -#}
{% macro is_read_by_batches(node) -%}
  {{ return(node.relation_name and node.config.event_time) }}
{%- endmacro %}
