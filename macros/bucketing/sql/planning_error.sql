{#-
  Returns the error with which Spark rejects a query before running it, or an empty string. EXPLAIN returns errors as text, whereas a failed
  statement would end the run.
-#}
{% macro planning_error(query) -%}
  {{ return(spark_bucketing.error_in_plan(run_query('explain ' ~ query).columns[0].values() | join('\n'))) }}
{%- endmacro %}


{#- Returns the text of EXPLAIN if it is an error, or an empty string if it is a plan. -#}
{% macro error_in_plan(plan) -%}
  {#- An analysis error replaces the plan below the heading; any other error replaces the whole text. -#}
  {%- set error = '^(?:== Physical Plan ==\\s*)?(?:Error occurred during query planning|[A-Za-z.]+Exception\\b)' -%}
  {{ return(plan if modules.re.match(error, plan) else '') }}
{%- endmacro %}
