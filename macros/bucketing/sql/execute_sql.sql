{#-
  Runs a statement without fetching its result.

  name: string, name of the dbt statement; dbt reports the result of 'main'
  defines: string, quoted names of the relations that the statement changes; none for all relations in the statement
-#}
{% macro execute_sql(sql, name='bucketing', defines=none) -%}
  {%- if not sql.startswith('refresh ') -%}
    {% do spark_bucketing.forget_relations(defines or sql) %}
  {%- endif -%}
  {% call statement(name, fetch_result=False, auto_begin=False) -%}
    {{ sql }}
  {%- endcall %}
{%- endmacro %}
