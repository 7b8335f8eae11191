{#-
  Runs a statement without fetching its result.

  name: string, name of the dbt statement; dbt reports the result of the statement 'main'
  defines: string, quoted names of the relations that the statement changes, or none if it may change every relation that it mentions
-#}
{% macro execute_sql(sql, name='bucketing', defines=none) -%}
  {%- if not sql.startswith('refresh ') -%}
    {% do spark_bucketing.forget_relations(defines or sql) %}
  {%- endif -%}
  {% call statement(name, fetch_result=False, auto_begin=False) -%}
    {{ sql }}
  {%- endcall %}
{%- endmacro %}
