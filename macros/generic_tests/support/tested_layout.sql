{#-
  Returns table_layout() of the tested relation. The dict also has the message `problem` if the relation cannot be tested, and the message
  `unbucketed` if it has no buckets.

  bucketed: bool, whether a table without buckets fails the test
-#}
{% macro tested_layout(relation, bucketed=true) -%}
  {%- set expected = 'a bucketed table' if bucketed else 'a table' -%}
  {%- if not spark_bucketing.relation_exists(relation) -%}
    {{ return({'problem': spark_bucketing.test_problem(relation, 'no table with this name', expected, 'build the table before the test')}) }}
  {%- endif -%}
  {%- set layout = spark_bucketing.table_layout(relation) -%}
  {%- set problem = none -%}
  {%- if layout.type == 'view' -%}
    {%- set problem = spark_bucketing.test_problem(relation, 'a view', expected, 'test the table that the view reads') -%}
  {%- endif -%}
  {%- if bucketed and not problem and not layout.buckets -%}
    {%- do layout.update({'unbucketed': spark_bucketing.test_problem(relation, 'a table without buckets', expected,
        "materialized='bucketed_table' with `clustered_by` and `buckets`") | replace('Cannot run test', 'Failed test')}) -%}
  {%- endif -%}
  {%- do layout.update({'problem': problem}) -%}
  {{ return(layout) }}
{%- endmacro %}


{#-
  Returns whether a relation exists. dbt's cache may be older than the relation. Therefore, if the cache does not contain the relation, the macro
  queries the metastore.
-#}
{% macro relation_exists(relation) -%}
  {%- if load_cached_relation(relation) is not none -%}
    {{ return(true) }}
  {%- elif run_query('show schemas like ' ~ spark_bucketing.string_literal(relation.schema)).rows | length == 0 -%}
    {{ return(false) }}
  {%- endif -%}
  {{ return(relation.identifier | lower in spark_bucketing.existing_names(relation, [relation.identifier])) }}
{%- endmacro %}
