{#-
  Converts a config value or argument (string, date or datetime) to a datetime without a time zone, which callers treat as UTC. If the value is none,
  the macro returns none.
-#}
{% macro as_datetime(value) -%}
  {%- if not value -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set text = value if value is string else value.isoformat() -%}
  {{ return(modules.datetime.datetime.fromisoformat(text | trim).replace(tzinfo=none)) }}
{%- endmacro %}
