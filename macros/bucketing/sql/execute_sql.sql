{#- For statements whose result nobody reads: run_query would fetch it, and 'main' is the one that dbt reports. -#}
{% macro execute_sql(sql, name='bucketing') -%}
  {%- if not sql.startswith('refresh ') -%}
    {% do spark_bucketing.forget_relations(sql) %}
  {%- endif -%}
  {% call statement(name, fetch_result=False, auto_begin=False) -%}
    {{ sql }}
  {%- endcall %}
{%- endmacro %}
