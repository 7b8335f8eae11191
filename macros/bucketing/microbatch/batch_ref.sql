{#- Returns the relation that dbt's ref() returns, with the event time filter of the batch, as dbt's RefResolver.create_relation() does. -#}
{% macro batch_ref() -%}
  {%- set resolver = context['__spark_bucketing_builtins'].ref -%}
  {%- set relation = resolver(*varargs, **kwargs) -%}
  {%- set node = resolver.manifest.resolve_ref(resolver.model, varargs[-1], varargs[0] if varargs | length == 2 else none,
      kwargs.get('version') or kwargs.get('v'), resolver.current_project, resolver.model.package_name) -%}
  {{ return(spark_bucketing.batch_relation(relation, node)) }}
{%- endmacro %}
