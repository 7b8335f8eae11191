{% macro integer_config(setting, minimum, maximum) -%}
  {%- set value = config.get(setting) -%}
  {%- if value is none -%}
    {{ return(none) }}
  {%- endif -%}
  {%- if value is boolean or value is not integer or value < minimum or value > maximum -%}
    {%- set found = "'" ~ value ~ "' (a string)" if value is string else value -%}
    {% do spark_bucketing.raise_config_error(setting, found, 'an integer from ' ~ minimum ~ ' to ' ~ '{:,}'.format(maximum),
        setting ~ '=' ~ ([64, maximum] | min if minimum else 1)) %}
  {%- endif -%}
  {{ return(value) }}
{%- endmacro %}
