{#-
  The model's SQL as a query in parentheses, to be selected from, with its contract and constraints checked. In a line of its own,
  so that a comment at its end stays inside.
-#}
{% macro model_source(sql) -%}
  {%- set sql = spark_bucketing.without_semicolon(sql) -%}
  {%- if config.get('contract').enforced -%}
    {% do get_assert_columns_equivalent(sql) %}
    {%- set sql = get_select_subquery(sql) -%}
  {%- endif -%}
  {{ return('(\n' ~ spark_bucketing.constrained_rows(sql) ~ '\n)') }}
{%- endmacro %}


{#- A statement may end with semicolons and comments after them, a subquery may not. -#}
{% macro without_semicolon(sql) -%}
  {%- if ';' not in sql -%}
    {{ return(sql) }}
  {%- endif -%}
  {%- set tokens = "(?s)'(?:[^'\\\\]|\\\\.)*'|" ~ '"(?:[^"\\\\]|\\\\.)*"|`[^`]*`|--[^\n]*|/[*].*?[*]/' -%}
  {%- set end = modules.re.search('(?:;\\s*)+$', modules.re.sub(tokens, spark_bucketing.blanked, sql)) -%}
  {{ return(sql[:end.start()] if end else sql) }}
{%- endmacro %}


{#- found: a match of a string, a quoted name or a comment, in whose place comes as much of nothing. -#}
{% macro blanked(found) -%}
  {%- set text = found.group(0) -%}
  {{ return((' ' if text.startswith('-') or text.startswith('/') else '_') * text | length) }}
{%- endmacro %}
