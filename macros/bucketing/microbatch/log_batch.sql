{#-
  Logs the progress of a microbatch model.

  batch: dict {start, end}, or none for a model without batches
-#}
{% macro log_batch(relation, batch, loop) -%}
  {%- if batch -%}
    {% do log('Batch ' ~ loop.index ~ ' of ' ~ loop.length ~ ' of ' ~ relation ~ ': ' ~ batch.start ~ ' to ' ~ batch.end, info=true) %}
  {%- endif -%}
{%- endmacro %}
