{#-
  What a test of a table's files has to know, {relation, layout, specs}, and `answer`, the SQL of a test that is decided already.

  tested: what dbt hands the test
-#}
{% macro tested(tested) -%}
  {%- set relation = spark_bucketing.tested_relation(tested) -%}
  {%- set layout = spark_bucketing.tested_layout(relation) -%}
  {%- set answer = none -%}
  {%- if layout.problem -%}
    {%- set answer = spark_bucketing.cannot_tell_sql(layout.problem) -%}
  {%- elif layout.unbucketed -%}
    {%- set answer = spark_bucketing.failure_sql(layout.unbucketed) -%}
  {%- endif -%}
  {%- set specs = {'sealed': [], 'loose': [], 'groups': []} if answer else spark_bucketing.tested_specs(tested, relation, layout) -%}
  {{ return({'answer': answer, 'relation': relation, 'layout': layout, 'specs': specs}) }}
{%- endmacro %}
