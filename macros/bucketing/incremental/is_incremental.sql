{#-
  Returns whether a run adds to an existing table, as dbt's is_incremental() does, for the materializations of this package as well.

  A model can call either macro. The materialization replaces dbt's with this one when it renders the model.
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
