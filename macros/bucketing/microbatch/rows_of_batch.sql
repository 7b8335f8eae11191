{#- The relation itself unless it has an `event_time`; then, as in dbt-core, a subquery of the batch's rows. -#}
{% macro rows_of_batch(relation) -%}
  {%- set batch = context['__spark_bucketing_batch'] -%}
  {%- for id in model.depends_on.nodes -%}
    {%- set node = graph.nodes.get(id) or graph.sources.get(id) -%}
    {%- if node and node.relation_name == relation | string and node.config.event_time -%}
      {%- set time = node.config.event_time if modules.re.match('^[A-Za-z0-9_.]+$', node.config.event_time)
          else spark_bucketing.quote_identifier(node.config.event_time) -%}
      {{ return('(select * from ' ~ relation ~ ' where ' ~ time ~ " >= '" ~ batch.start ~ "+00:00' and " ~ time ~ " < '" ~ batch.end ~ "+00:00')") }}
    {%- endif -%}
  {%- endfor -%}
  {{ return(relation) }}
{%- endmacro %}
