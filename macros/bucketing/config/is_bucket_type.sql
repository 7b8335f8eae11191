{#-
  Returns whether a type, with or without parameters, is one of the given types.

  types: list, from config_schema(), bucket_types() or hashed_types()
-#}
{% macro is_bucket_type(type, types) -%}
  {%- set base = modules.re.split('[(<]', type | lower)[0] | trim -%}
  {{ return(base in types and ' collate ' not in type | lower) }}
{%- endmacro %}
