{#- Returns a config or argument (string, date or datetime) as a UTC datetime without time zone, or none for none. -#}
{% macro as_datetime(value) -%}
  {%- if not value -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set text = value if value is string else value.isoformat() -%}
  {{ return(modules.datetime.datetime.fromisoformat(text | trim).replace(tzinfo=none)) }}
{%- endmacro %}
