{#-
  Returns a text as a Spark SQL string literal. The backslash is the escape character, so the macro escapes backslashes first. The macro also escapes
  ${...}, which Spark would substitute even inside literals.
-#}
{% macro string_literal(value) -%}
  {{- return("'" ~ (value | string | replace('\\', '\\\\') | replace("'", "\\'") | replace('${', '$\\u007b')) ~ "'") -}}
{%- endmacro %}


{#- Converts a list of lists of strings to SQL string literals. The value none becomes NULL. -#}
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
