{#- Returns the values in a partition name such as ds=2024-01-01/place=a%2Fb. -#}
{% macro values_of_partition(name) -%}
  {%- set values = [] -%}
  {%- for part in name.split('/') -%}
    {%- set value = part.split('=', 1)[1] -%}
    {%- do values.append(none if value == '__HIVE_DEFAULT_PARTITION__' else modules.re.sub('%([0-9A-Fa-f]{2})', spark_bucketing.unescaped, value)) -%}
  {%- endfor -%}
  {{ return(values) }}
{%- endmacro %}


{#-
  Returns the character of an escape sequence in a partition name or URI.

  found: match of a sequence such as %41
-#}
{% macro unescaped(found) -%}
  {{ return('%c' | format(found.group(1) | int(base=16))) }}
{%- endmacro %}
