{#-
  Returns a Spark SQL string literal. The escape character is the backslash, so it is escaped first. Spark substitutes ${...} even inside 
  literals, before it parses the statement.
-#}
{% macro string_literal(value) -%}
  {{- return("'" ~ (value | string | replace('\\', '\\\\') | replace("'", "\\'") | replace('${', '$\\u007b')) ~ "'") -}}
{%- endmacro %}


{#- Converts lists of strings to lists of SQL string literals, with NULL for none. -#}
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
