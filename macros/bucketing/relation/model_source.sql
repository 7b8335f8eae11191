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


{#- A statement may end with a semicolon and comments, a subquery may not. One within a string is preceded by an odd number of quotes. -#}
{% macro without_semicolon(sql) -%}
  {%- set end = modules.re.search(';\\s*(?:--[^\n]*\\s*|/[*](?:[^*]|[*](?!/))*[*]/\\s*|;\\s*)*$', sql) -%}
  {%- if end and sql[:end.start()].count("'") % 2 == 0 -%}
    {{ return(sql[:end.start()]) }}
  {%- endif -%}
  {{ return(sql) }}
{%- endmacro %}
