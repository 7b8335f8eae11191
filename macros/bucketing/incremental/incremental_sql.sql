{#-
  The model's SQL with is_incremental() true. dbt compiled it with false, since its own macro knows only the name
  'incremental'; the model is rendered again, with that one answer changed.
-#}
{% macro incremental_sql() -%}
  {%- set original = context['is_incremental'] -%}
  {%- do context.update({'is_incremental': spark_bucketing.always_incremental}) -%}
  {%- set sql = render(model.raw_code) -%}
  {%- do context.update({'is_incremental': original}) -%}
  {%- set ctes = model.extra_ctes | map(attribute='sql') | list -%}
  {%- if ctes -%}
    {%- set sql = 'with ' ~ ctes | join(', ') ~ '\nselect * from (\n' ~ sql ~ '\n)' -%}
  {%- endif -%}
  {{ return(sql) }}
{%- endmacro %}


{% macro always_incremental() -%}
  {{ return(true) }}
{%- endmacro %}
