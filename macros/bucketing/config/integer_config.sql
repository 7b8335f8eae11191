{% macro integer_config(setting, minimum, maximum, node=model) -%}
  {%- set value = node.config.get(setting) -%}
  {%- if value is none -%}
    {{ return(none) }}
  {%- endif -%}
  {%- if value is boolean or value is not integer or value < minimum or value > maximum -%}
    {%- set found = "'" ~ value ~ "' (a string)" if value is string else value -%}
    {%- set meant = value | trim | int if value is string and modules.re.match('^[0-9]{1,9}$', value | trim) else none -%}
    {%- set example = [64, maximum] | min if minimum else 1 -%}
    {% do spark_bucketing.raise_config_error(setting, found, 'an integer from ' ~ minimum ~ ' to ' ~ '{:,}'.format(maximum),
        setting ~ '=' ~ (meant if meant is not none and minimum <= meant <= maximum else example), node=node) %}
  {%- endif -%}
  {{ return(value) }}
{%- endmacro %}
