{#-
  Returns a config value that must be one of the given choices, in lower case.

  aliases: dict from names that other tools use to one of the choices, for the suggestion in the message
-#}
{% macro choice_config(setting, choices, default, aliases={}, node=model) -%}
  {%- set value = node.config.get(setting) -%}
  {%- if value is none -%}
    {{ return(default) }}
  {%- endif -%}
  {%- if value is not string or value | lower not in choices -%}
    {%- set meant = aliases.get(value | string | lower) or spark_bucketing.nearest_name(value, choices) or default or choices[0] -%}
    {% do spark_bucketing.raise_config_error(setting, value, 'one of ' ~ choices | join(', '), setting ~ "='" ~ meant ~ "'", node=node) %}
  {%- endif -%}
  {{ return(value | lower) }}
{%- endmacro %}
