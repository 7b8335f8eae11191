{#- A number of bytes: an integer, or text with a unit such as 256MiB. -#}
{% macro size_config(setting, node=model) -%}
  {%- set value = node.config.get(setting) -%}
  {%- set size = spark_bucketing.parsed_size(value) -%}
  {%- if size is none or size < 1 -%}
    {%- set found = modules.re.match('^ *([0-9.]+) *([kmgt])(?:b|ib|bytes)? *$', value | string | lower) -%}
    {% do spark_bucketing.raise_config_error(setting, "'" ~ value ~ "'" if value is string else value, 'bytes, or a number with one of the units KiB, MiB, GiB, TiB',
        setting ~ "='" ~ (found.group(1) ~ found.group(2) | upper ~ 'iB' if found else '256MiB') ~ "'", node=node) %}
  {%- endif -%}
  {{ return(size) }}
{%- endmacro %}


{#- Bytes of `256MiB`, `1.5 GiB` or an integer; none for anything else. -#}
{% macro parsed_size(value) -%}
  {%- if value is integer and value is not boolean -%}
    {{ return(value) }}
  {%- endif -%}
  {%- set found = modules.re.match('^ *([0-9]+(?:[.][0-9]+)?) *(?:([KMGTP]?)iB|B)? *$', value, modules.re.IGNORECASE) if value is string else none -%}
  {{ return((found.group(1) | float * 1024 ** ' KMGTP'.index(found.group(2) | default(' ', true) | upper)) | int if found else none) }}
{%- endmacro %}
