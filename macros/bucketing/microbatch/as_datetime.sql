{#- Converts a config value or argument (string, date, datetime or none) to a UTC datetime without time zone, or none. -#}
{% macro as_datetime(value) -%}
  {%- if not value -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set text = value if value is string else value.isoformat() -%}
  {{ return(modules.datetime.datetime.fromisoformat(text | trim).replace(tzinfo=none)) }}
{%- endmacro %}
