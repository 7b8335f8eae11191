{#- batch: none where there is nothing to say -#}
{% macro log_batch(relation, batch, loop) -%}
  {%- if batch -%}
    {% do log('Batch ' ~ loop.index ~ ' of ' ~ loop.length ~ ' of ' ~ relation ~ ': ' ~ batch.start ~ ' to ' ~ batch.end, info=true) %}
  {%- endif -%}
{%- endmacro %}
