{#-
  Returns the error with which Spark rejects a query during planning, or an empty string. EXPLAIN returns errors as text, whereas an error of the
  query itself would end the dbt run.
-#}
{% macro planning_error(query) -%}
  {{ return(spark_bucketing.error_in_plan(run_query('explain ' ~ query).columns[0].values() | join('\n'))) }}
{%- endmacro %}


{#- Returns the output of EXPLAIN if it is an error, or an empty string if it is a plan. -#}
{% macro error_in_plan(plan) -%}
  {#- An analysis error replaces the plan below the heading. Any other error replaces the whole output. -#}
  {%- set error = '^(?:== Physical Plan ==\\s*)?(?:Error occurred during query planning|[A-Za-z.]+Exception\\b)' -%}
  {{ return(plan if modules.re.match(error, plan) else '') }}
{%- endmacro %}
