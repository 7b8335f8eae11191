{#- Returns the relation that dbt's source() returns, with the event time filter of the batch. -#}
{% macro batch_source() -%}
  {%- set resolver = context['__spark_bucketing_builtins'].source -%}
  {%- set relation = resolver(*varargs, **kwargs) -%}
  {%- set node = resolver.manifest.resolve_source(varargs[0], varargs[1], resolver.current_project, resolver.model.package_name) -%}
  {{ return(spark_bucketing.batch_relation(relation, node)) }}
{%- endmacro %}
