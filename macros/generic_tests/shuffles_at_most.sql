{#-
  Returns the shuffles (Exchange nodes) in Spark's plan for the model's SQL if there are more than `n` of them. With adaptive execution, the test uses
  the initial plan. The test runs only EXPLAIN, not the query.
-#}
{% test shuffles_at_most(model, n, query=none, incremental=false) %}
  {%- if execute -%}
    {%- if n is not integer or n is boolean or n < 0 -%}
      {% do spark_bucketing.raise_argument_error('shuffles_at_most', 'n', n, 'an integer of 0 or more', 'n: 0') %}
    {%- endif -%}
    {%- set sql = {'text': query} if query else spark_bucketing.model_sql(spark_bucketing.tested_relation(model), incremental) -%}
    {%- set plan = spark_bucketing.explained_shuffles(sql.text) if sql.text else sql -%}
    {%- if plan.problem -%}
      {{ spark_bucketing.inconclusive_sql(plan.problem) }}
    {%- else -%}
      {%- set shuffles = plan.shuffles if plan.shuffles | length > n else [] -%}
      {{ spark_bucketing.literal_rows_sql(['number', 'shuffle'], zip(range(1, shuffles | length + 1), shuffles) | list) }}
    {%- endif -%}
  {%- endif -%}
{% endtest %}
