{#-
  Backslash is an escape character in Spark's string literals, so it goes first. Spark replaces ${...} in the text of a
  statement, even in literals, before it parses them.
-#}
{% macro string_literal(value) -%}
  {{- return("'" ~ (value | string | replace('\\', '\\\\') | replace("'", "\\'") | replace('${', '$\\u007b')) ~ "'") -}}
{%- endmacro %}
