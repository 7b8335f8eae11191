{#-
  Returns the model's SQL as a subquery in parentheses, with checks of its contract and constraints. The closing parenthesis is on a
  separate line, because the SQL may end with a comment.
-#}
{% macro model_source(sql) -%}
  {%- set sql = spark_bucketing.without_semicolon(sql) -%}
  {%- if config.get('contract').enforced -%}
    {% do get_assert_columns_equivalent(sql) %}
    {%- set sql = get_select_subquery(sql) -%}
  {%- endif -%}
  {{ return('(\n' ~ spark_bucketing.constrained_rows(sql) ~ '\n)') }}
{%- endmacro %}


{#- Returns SQL without trailing semicolons and without the comments after them, because a subquery cannot contain semicolons. -#}
{% macro without_semicolon(sql) -%}
  {%- if ';' not in sql -%}
    {{ return(sql) }}
  {%- endif -%}
  {%- set tokens = "(?s)'(?:[^'\\\\]|\\\\.)*'|" ~ '"(?:[^"\\\\]|\\\\.)*"|`[^`]*`|--[^\n]*|/[*].*?[*]/' -%}
  {%- set end = modules.re.search('(?:;\\s*)+$', modules.re.sub(tokens, spark_bucketing.blanked, sql)) -%}
  {{ return(sql[:end.start()] if end else sql) }}
{%- endmacro %}


{#-
  Returns a placeholder that is as long as the match, so that positions in the SQL do not shift.

  found: match of a string literal, quoted name or comment
-#}
{% macro blanked(found) -%}
  {%- set text = found.group(0) -%}
  {{ return((' ' if text.startswith('-') or text.startswith('/') else '_') * text | length) }}
{%- endmacro %}
