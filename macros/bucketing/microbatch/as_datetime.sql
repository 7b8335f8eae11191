{#- A time without zone, taken as UTC, of a config or an argument that is a text, a date or a time; none of none. -#}
{% macro as_datetime(value) -%}
  {%- if not value -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set text = value if value is string else value.isoformat() -%}
  {{ return(modules.datetime.datetime.fromisoformat(text | trim).replace(tzinfo=none)) }}
{%- endmacro %}
