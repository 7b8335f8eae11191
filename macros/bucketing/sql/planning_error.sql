{#-
  What Spark says against a query before it runs it; empty for nothing. EXPLAIN has errors in its result, where SQL can read them: a
  statement that fails ends the run.
-#}
{% macro planning_error(query) -%}
  {{ return(spark_bucketing.error_in_plan(run_query('explain ' ~ query).columns[0].values() | join('\n'))) }}
{%- endmacro %}


{#- The text of EXPLAIN, where it is an error; empty for a plan. -#}
{% macro error_in_plan(plan) -%}
  {#- An error of the analysis stands in the plan's place, any other in that of the whole text. -#}
  {%- set error = '^(?:== Physical Plan ==\\s*)?(?:Error occurred during query planning|[A-Za-z.]+Exception\\b)' -%}
  {{ return(plan if modules.re.match(error, plan) else '') }}
{%- endmacro %}
