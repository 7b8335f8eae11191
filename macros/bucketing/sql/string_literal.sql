{#-
  Backslash is an escape character in Spark's string literals, so it goes first. Spark replaces ${...} in the text of a
  statement, even in literals, before it parses them.
-#}
{% macro string_literal(value) -%}
  {{- return("'" ~ (value | string | replace('\\', '\\\\') | replace("'", "\\'") | replace('${', '$\\u007b')) ~ "'") -}}
{%- endmacro %}


{#- For each of some lists of strings a list of their literals; NULL for none. -#}
{% macro literal_rows(rows) -%}
  {%- set literals = [] -%}
  {%- for row in rows -%}
    {%- set items = [] -%}
    {%- for value in row -%}
      {%- do items.append('cast(null as string)' if value is none else spark_bucketing.string_literal(value)) -%}
    {%- endfor -%}
    {%- do literals.append(items) -%}
  {%- endfor -%}
  {{ return(literals) }}
{%- endmacro %}
