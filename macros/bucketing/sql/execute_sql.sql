{#-
  For statements whose result nobody reads: run_query would fetch it, and 'main' is the one that dbt reports.

  defines: the quoted names of what is another thing afterwards; none for all that the statement names
-#}
{% macro execute_sql(sql, name='bucketing', defines=none) -%}
  {%- if not sql.startswith('refresh ') -%}
    {% do spark_bucketing.forget_relations(defines or sql) %}
  {%- endif -%}
  {% call statement(name, fetch_result=False, auto_begin=False) -%}
    {{ sql }}
  {%- endcall %}
{%- endmacro %}
