{#-
  Returns a relation of ref() or source() with the event time filter of the batch, if its node has an `event_time`. Otherwise, returns the relation.

  If the batch has a list `inputs`, the macro adds the relation to it, filtered to the batch's `span`, and returns a relation without rows.

  relation: relation from dbt's resolver, which follows --defer, --empty and --sample
  node: node or source of the relation, from dbt's manifest
-#}
{% macro batch_relation(relation, node) -%}
  {%- if not node.config.event_time -%}
    {{ return(relation) }}
  {%- endif -%}
  {%- set batch = context['__spark_bucketing_batch'] -%}
  {%- if batch.inputs is defined -%}
    {%- do batch.inputs.append(relation.replace(event_time_filter=spark_bucketing.batch_filter(relation, node, batch.span))) -%}
    {{ return(relation.replace(limit=0, event_time_filter=none)) }}
  {%- endif -%}
  {{ return(relation.replace(event_time_filter=spark_bucketing.batch_filter(relation, node, batch))) }}
{%- endmacro %}


{#-
  Returns dbt's EventTimeFilter of a batch, narrowed to the filter that --sample adds to the relation.

  Where dbt quotes the column with double quotes, which are a string in Spark, the macro uses backquotes.
-#}
{% macro batch_filter(relation, node, batch) -%}
  {%- set columns = node.columns.values() | selectattr('name', 'equalto', node.config.event_time) | rejectattr('quote', 'none') | list -%}
  {%- set quoted = columns[0].quote if columns else (node.quoting or {}).column -%}
  {%- set sampled = relation.event_time_filter -%}
  {#- Macros cannot construct objects of dbt, except from a dict. -#}
  {%- set filter = relation.from_dict({'path': {}, 'event_time_filter': {'field_name': spark_bucketing.event_time_sql(node.config.event_time, quoted)}}).event_time_filter -%}
  {%- set start = spark_bucketing.in_utc(batch.start) -%}
  {%- set end = spark_bucketing.in_utc(batch.end) -%}
  {{ return(filter.replace(start=[start, sampled.start] | max if sampled else start, end=[end, sampled.end] | min if sampled else end)) }}
{%- endmacro %}


{#- Returns a datetime with the time zone UTC. -#}
{% macro in_utc(time) -%}
  {{ return(time.replace(tzinfo=modules.pytz.utc)) }}
{%- endmacro %}
