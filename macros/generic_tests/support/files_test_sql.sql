{#-
  Returns the SQL of a test that checks a table's files. The caller's block receives a dict {relation, layout, specs}, and returns the SQL. The macro
  does not call the block if the layout alone determines the result.

  tested: relation or string, the `model` argument of the test
  bucketed: bool, whether the table must have buckets; if it need not, `specs` is missing
-#}
{% macro files_test_sql(tested, bucketed=true) -%}
  {%- if execute -%}
    {%- set relation = spark_bucketing.tested_relation(tested) -%}
    {%- set layout = spark_bucketing.tested_layout(relation, bucketed=bucketed) -%}
    {%- if layout.problem -%}
      {{ spark_bucketing.inconclusive_sql(layout.problem) }}
    {%- elif layout.unbucketed -%}
      {{ spark_bucketing.failure_sql(layout.unbucketed) }}
    {%- else -%}
      {{ caller({'relation': relation, 'layout': layout, 'specs': spark_bucketing.tested_specs(tested, relation, layout) if bucketed}) }}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}
