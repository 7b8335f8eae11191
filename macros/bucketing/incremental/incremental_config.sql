{#-
  Returns the incremental part of a config: {strategy, unique_key, update_columns, exclude_columns, predicates, on_schema_change, operations, checks}.

  operations: dict from 'delete', 'insert' and 'update' to the SQL condition that marks a row of the query for this operation
  checks: bool, whether a merge compares the marked operations with the table

  Runs no query, so that dbt can call it while it parses the project.
-#}
{% macro incremental_config(layout, node=model) -%}
  {%- set strategy = layout.incremental_strategy -%}
  {%- if strategy == 'append' and node.config.get('incremental_strategy') | lower == 'merge' -%}
    {% do exceptions.warn("Model `" ~ node.name ~ "`: incremental_strategy='merge' without `unique_key` appends all rows. Set unique_key=['id'], or incremental_strategy='append'.") %}
  {%- elif strategy != 'merge' -%}
    {%- for setting in ['unique_key', 'merge_update_columns', 'merge_exclude_columns', 'incremental_predicates'] if node.config.get(setting) -%}
      {% do exceptions.warn("Model `" ~ node.name ~ "`: `" ~ setting ~ "` has no effect with incremental_strategy='" ~ strategy ~ "'; it applies to 'merge' only.") %}
    {%- endfor -%}
  {%- endif -%}
  {%- set predicates = node.config.get('predicates') or layout.incremental_predicates -%}
  {%- set operations = {} -%}
  {%- for operation in ['delete', 'insert', 'update'] if layout.get(operation ~ '_when') -%}
    {%- do operations.update({operation: layout[operation ~ '_when']}) -%}
  {%- endfor -%}
  {{ return({
      'strategy': strategy,
      'unique_key': layout.unique_key,
      'update_columns': layout.merge_update_columns,
      'exclude_columns': layout.merge_exclude_columns,
      'predicates': [predicates] if predicates is string else predicates,
      'on_schema_change': layout.on_schema_change,
      'operations': operations,
      'checks': layout.merge_checks,
  }) }}
{%- endmacro %}
