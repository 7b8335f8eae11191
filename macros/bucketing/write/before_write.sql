{#- A `since` for what is about to be written; the minutes are for clocks that differ between driver and storage. -#}
{% macro before_write() -%}
  {{ return(run_query('select unix_micros(current_timestamp() - interval 5 minutes)').rows[0][0] | int) }}
{%- endmacro %}
