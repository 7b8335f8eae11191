{#- Returns a config as a number of bytes. The value is an integer, or text with a unit such as 256MiB. -#}
{% macro size_config(setting, node=model) -%}
  {%- set value = node.config.get(setting) -%}
  {%- set size = spark_bucketing.parsed_size(value) -%}
  {%- if size is none or size < 1 -%}
    {%- set found = modules.re.match('^ *([0-9.]+) *([kmgt])(?:b|ib|bytes)? *$', value | string | lower) -%}
    {% do spark_bucketing.raise_config_error(setting, "'" ~ value ~ "'" if value is string else value, 'a number of bytes, or a size in KiB, MiB, GiB or TiB',
        setting ~ "='" ~ (found.group(1) ~ found.group(2) | upper ~ 'iB' if found else '256MiB') ~ "'", node=node) %}
  {%- endif -%}
  {{ return(size) }}
{%- endmacro %}


{#- Returns the number of bytes for text such as `256MiB` or `1.5 GiB`, or for an integer; none for any other value. -#}
{% macro parsed_size(value) -%}
  {%- if value is integer and value is not boolean -%}
    {{ return(value) }}
  {%- endif -%}
  {%- set found = modules.re.match('^ *([0-9]+(?:[.][0-9]+)?) *(?:([KMGTP]?)iB|B)? *$', value, modules.re.IGNORECASE) if value is string else none -%}
  {{ return((found.group(1) | float * 1024 ** ' KMGTP'.index(found.group(2) | default(' ', true) | upper)) | int if found else none) }}
{%- endmacro %}
