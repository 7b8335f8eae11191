{#-
  The relation itself unless its node has an `event_time`; then, as in dbt-core, a subquery of the batch's rows. With
  --empty and --sample, the relation prints as a subquery already; with --defer, it is in another schema than its node.
-#}
{% macro batch_rows(relation, node) -%}
  {%- if not node or not node.relation_name or not node.config.event_time -%}
    {{ return(relation) }}
  {%- endif -%}
  {{ return('(select * from ' ~ relation ~ ' where ' ~ spark_bucketing.batch_condition(node.config.event_time, context['__spark_bucketing_batch']) ~ ')') }}
{%- endmacro %}
