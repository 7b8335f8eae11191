{% macro log_batch(relation, batch, loop) -%}
  {% do log('Batch ' ~ loop.index ~ ' of ' ~ loop.length ~ ' of ' ~ relation ~ ': ' ~ batch.start ~ ' to ' ~ batch.end, info=true) %}
{%- endmacro %}
