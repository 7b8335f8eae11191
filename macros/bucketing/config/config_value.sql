{#-
  Returns the normalized value of a config key, or the key's default.

  spec: dict, the entry of the key in config_schema()
-#}
{% macro config_value(key, spec, value, node) -%}
  {%- if value is none or (spec.lenient and not value) -%}
    {{ return(spec.get('default')) }}
  {%- elif spec.type == 'columns' -%}
    {{ return(spark_bucketing.column_list(key, spec, value, node)) }}
  {%- elif spec.type == 'mapping' -%}
    {{ return(spark_bucketing.option_mapping(key, spec, value, node)) }}
  {%- elif spec.type == 'integer' and value is integer and value is not boolean and spec.minimum <= value <= spec.maximum -%}
    {{ return(value) }}
  {%- elif spec.type == 'number' and value is number and value is not boolean and spec.minimum < value <= spec.maximum -%}
    {{ return(value) }}
  {%- elif spec.type == 'size' and (spark_bucketing.parsed_size(value) or 0) >= 1 -%}
    {{ return(spark_bucketing.parsed_size(value)) }}
  {%- elif spec.type == 'choice' and value is string and value | lower in spec.choices -%}
    {{ return(value | lower) }}
  {%- elif spec.type == 'boolean' and value is boolean or spec.type == 'any' -%}
    {{ return(value) }}
  {%- elif (spec.type == 'text' and value is string or spec.type == 'date') and modules.re.match(spec.pattern, value | string) -%}
    {{ return(value | string | trim) }}
  {%- endif -%}
  {%- set found = "'" ~ value ~ "'" if value is string and spec.type in ['integer', 'number', 'size'] else value -%}
  {% do spark_bucketing.raise_config_error(key, found ~ (' (a string)' if value is string and spec.type in ['integer', 'number'] else ''), spec.expected,
      key ~ '=' ~ spark_bucketing.meant_value(spec, value), node=node) %}
{%- endmacro %}


{#- Returns as text the valid value for which an invalid value is most likely a mistake, or else an example. -#}
{% macro meant_value(spec, value) -%}
  {%- if spec.type == 'choice' -%}
    {{ return("'" ~ ((spec.aliases or {}).get(value | string | lower) or spark_bucketing.nearest_name(value, spec.choices) or spec.default or spec.choices[0]) ~ "'") }}
  {%- elif spec.type == 'integer' and value is string and modules.re.match('[0-9]{1,9}$', value | trim) and spec.minimum <= value | trim | int <= spec.maximum -%}
    {{ return(value | trim | int) }}
  {%- elif spec.type == 'size' -%}
    {%- set size = modules.re.match('^ *([0-9.]+) *([kmgt])(?:b|ib|bytes)? *$', value | string | lower) -%}
    {{ return("'" ~ size.group(1) ~ size.group(2) | upper ~ "iB'" if size else spec.example) }}
  {%- endif -%}
  {{ return(spec.example) }}
{%- endmacro %}


{#- Returns a list of distinct column names for a string or a list of names. -#}
{% macro column_list(key, spec, value, node) -%}
  {%- set names = [value] if value is string else value -%}
  {%- set instead = key ~ '=' ~ spec.example -%}
  {%- if names is mapping or names is not iterable -%}
    {% do spark_bucketing.raise_config_error(key, value, spec.expected, instead, node=node) %}
  {%- endif -%}
  {%- set distinct = {} -%}
  {%- for name in names -%}
    {%- if name is not string or not name | trim -%}
      {% do spark_bucketing.raise_config_error(key, names, 'column names, each a non-empty string', instead, node=node) %}
    {%- elif name | lower in distinct and not spec.lenient -%}
      {% do spark_bucketing.raise_config_error(key, names, 'each column once', 'remove the second `' ~ name ~ '`', node=node) %}
    {%- endif -%}
    {%- do distinct.setdefault(name | lower, name) -%}
  {%- endfor -%}
  {%- if distinct | length > (spec.maximum or distinct | length) -%}
    {% do spark_bucketing.raise_config_error(key, names, spec.expected, key ~ "='" ~ distinct.values() | first ~ "'", node=node) %}
  {%- endif -%}
  {{ return(distinct.values() | list) }}
{%- endmacro %}


{% macro option_mapping(key, spec, value, node) -%}
  {%- if value is not mapping -%}
    {% do spark_bucketing.raise_config_error(key, value, spec.expected, key ~ '=' ~ spec.example, node=node) %}
  {%- endif -%}
  {%- for name, entry in value.items() -%}
    {%- if name is not string or entry is none or entry is not string and entry is not number and entry is not boolean -%}
      {% do spark_bucketing.raise_config_error(key, name ~ ': ' ~ entry, 'string keys with values that are strings, numbers or booleans',
          key ~ '=' ~ spec.example, node=node) %}
    {%- endif -%}
    {%- for pattern, allowed, expected, instead in spec.refused if modules.re.match(pattern, name) and entry | string != allowed -%}
      {% do spark_bucketing.raise_config_error(key, name ~ ' = ' ~ entry, expected, instead.format(name=name), node=node) %}
    {%- endfor -%}
  {%- endfor -%}
  {{ return(value) }}
{%- endmacro %}


{#- Returns the number of bytes for text such as `256MiB` or `1.5 GiB`, or for an integer. Returns none for any other value. -#}
{% macro parsed_size(value) -%}
  {%- if value is integer and value is not boolean -%}
    {{ return(value) }}
  {%- endif -%}
  {%- set found = modules.re.match(spark_bucketing.config_schema().size, value, modules.re.IGNORECASE) if value is string else none -%}
  {{ return((found.group(1) | float * 1024 ** ' KMGTP'.index(found.group(2) | default(' ', true) | upper)) | int if found else none) }}
{%- endmacro %}
