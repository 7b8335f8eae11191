{#-
  The SQL of a test of a table's files: that of the block that calls this, which gets {relation, layout, specs}, unless the test is decided
  already.

  tested: what dbt hands the test
  bucketed: whether the table has to have buckets; there are no `specs` otherwise
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
