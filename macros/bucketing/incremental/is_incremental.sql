{#-
  What dbt's is_incremental() says for materialized='incremental', said for those of this package as well. A model of the
  latter may use either: dbt's own is answered by this one when the materialization renders the model.
-#}
{% macro is_incremental() -%}
  {%- if not execute -%}
    {{ return(false) }}
  {%- elif '__spark_bucketing_is_incremental' in context -%}
    {{ return(context['__spark_bucketing_is_incremental']) }}
  {%- endif -%}
  {%- set relation = load_cached_relation(this) -%}
  {{ return(
      relation is not none and relation.type == 'table'
      and model.config.materialized in ['incremental', 'bucketed_incremental', 'organized_incremental']
      and not should_full_refresh()
  ) }}
{%- endmacro %}
