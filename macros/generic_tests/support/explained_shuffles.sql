{#-
  Returns the shuffles in Spark's plan for a query as a dict {shuffles: [text of each Exchange]}. If Spark cannot plan the query, returns {problem}.

    AdaptiveSparkPlan isFinalPlan=false
    +- SortMergeJoin [k#1L], [k#2L], Inner
       :- Sort [k#1L ASC NULLS FIRST], false, 0
       :  +- Exchange hashpartitioning(k#1L, 6), ENSURE_REQUIREMENTS, [plan_id=27]    <- counted
       +- BroadcastExchange ...                                                        <- not counted: no shuffle
       +- ReusedExchange [k#2L], Exchange hashpartitioning(...)                        <- not counted: reuses an Exchange

  EXPLAIN prints a subquery in a filter twice, in the filter and in the scan. Exchanges with the same plan_id are the same Exchange. If Spark cannot
  plan the query, EXPLAIN does not fail, but returns the error as text.
-#}
{% macro explained_shuffles(sql) -%}
  {%- set plan = run_query('explain\n' ~ sql).columns[0].values() | join('\n') -%}
  {%- if '== Physical Plan ==' not in plan or spark_bucketing.error_in_plan(plan) -%}
    {{ return({'problem': "Cannot run test '" ~ model.name ~ "': Spark cannot plan the SQL:\n" ~ plan[:2000]}) }}
  {%- elif modules.re.search('[.][.][.] [0-9]+ more characters$', plan.rstrip()) -%}
    {{ return({'problem': "Cannot run test '" ~ model.name ~ "': Spark truncated the plan. Increase spark.sql.maxPlanStringLength."}) }}
  {%- endif -%}
  {%- set shuffles = {} -%}
  {%- for line in plan.split('\n') -%}
    {%- for node, rest in modules.re.findall('^[ :+-]*(?:[*][(][0-9]+[)] )?([A-Za-z]*Exchange)\\b(.*)', line)
        if 'Broadcast' not in node and 'Reused' not in node -%}
      {%- do shuffles.update({line.lstrip(' :+-'): modules.re.sub(', \\[plan_id=[0-9]+\\]', '', node ~ rest)}) -%}
    {%- endfor -%}
  {%- endfor -%}
  {{ return({'shuffles': shuffles.values() | list}) }}
{%- endmacro %}
