{#- For statements whose result nobody reads: run_query would fetch it, and 'main' is the one that dbt reports. -#}
{% macro execute_sql(sql, name='bucketing') -%}
  {% do spark_bucketing.forget_relations(sql) %}
  {% call statement(name, fetch_result=False, auto_begin=False) -%}
    {{ sql }}
  {%- endcall %}
{%- endmacro %}
