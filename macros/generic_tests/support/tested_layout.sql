{#-
  table_layout() of the relation under test, with `problem`: why it can't be tested, or none, and `unbucketed`: that it has no buckets.

  bucketed: whether a table without buckets is a failure
-#}
{% macro tested_layout(relation, bucketed=true) -%}
  {%- set expected = 'a bucketed table' if bucketed else 'a table' -%}
  {%- if not spark_bucketing.relation_exists(relation) -%}
    {{ return({'problem': spark_bucketing.test_problem(relation, 'nothing of this name', expected, 'build it before it is tested')}) }}
  {%- endif -%}
  {%- set layout = spark_bucketing.table_layout(relation) -%}
  {%- set problem = none -%}
  {%- if layout.type == 'view' -%}
    {%- set problem = spark_bucketing.test_problem(relation, 'a view', expected, 'test the table below it') -%}
  {%- endif -%}
  {%- if bucketed and not problem and not layout.buckets -%}
    {%- do layout.update({'unbucketed': spark_bucketing.test_problem(relation, 'a table without buckets', expected,
        "materialized='bucketed_table' with `clustered_by` and `buckets`") | replace('Cannot tell: test', 'Failed: test')}) -%}
  {%- endif -%}
  {%- do layout.update({'problem': problem}) -%}
  {{ return(layout) }}
{%- endmacro %}


{#- dbt's cache knows what was there when it was filled; the metastore is asked about the rest. -#}
{% macro relation_exists(relation) -%}
  {%- if load_cached_relation(relation) is not none -%}
    {{ return(true) }}
  {%- elif run_query('show schemas like ' ~ spark_bucketing.string_literal(relation.schema)).rows | length == 0 -%}
    {{ return(false) }}
  {%- endif -%}
  {{ return(relation.identifier | lower in spark_bucketing.existing_names(relation, [relation.identifier])) }}
{%- endmacro %}
