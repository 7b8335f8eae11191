{% macro property_list(properties) -%}
  {%- set entries = [] -%}
  {%- for key, value in properties.items() -%}
    {%- set text = value | string | lower if value is boolean else value -%}
    {%- do entries.append(spark_bucketing.string_literal(key) ~ ' = ' ~ spark_bucketing.string_literal(text)) -%}
  {%- endfor -%}
  {{- return('(' ~ entries | join(', ') ~ ')') -}}
{%- endmacro %}
