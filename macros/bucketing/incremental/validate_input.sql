{#-
  Raises an error if several new rows match one row of a merge with incremental_predicates, or if a batch would overwrite rows of other batches.
  Refreshes the table first.

  new: dict, from reconcile_increment()
  input: relation from load_input()
  batch: dict {start, end} of a microbatch, or none
-#}
{% macro validate_input(relation, new, input, increment, batch) -%}
  {#- The model's query may have cached the table's files. Rows that another session has inserted since would be lost. -#}
  {% do spark_bucketing.execute_sql('refresh table ' ~ spark_bucketing.quote_relation(relation)) %}
  {%- if increment.strategy == 'merge' and increment.predicates -%}
    {% do spark_bucketing.validate_merge(new.rows, spark_bucketing.quote_relation(input), new.plain, increment) %}
  {%- elif batch -%}
    {% do spark_bucketing.validate_batch(new.rows, input, new.plain, new.layout, batch) %}
  {%- endif -%}
{%- endmacro %}
