{#-
  Query that fails with a message. A test that can't be decided must not pass; but it fails when it runs, so that
  `dbt compile` and `dbt docs generate` work for tables that are not there yet. A filter is never optimised away.
-#}
{% macro inconclusive_sql(problem) -%}
  {%- set message = spark_bucketing.string_literal(problem) -%}
  select {{ message }} as problem where raise_error({{ message }}) is null
{%- endmacro %}


{#- Query for one row with a message: what is known to be wrong is a failure, and no error. -#}
{% macro failure_sql(problem) -%}
  {% do log(problem, info=true) %}
  select {{ spark_bucketing.string_literal(problem) }} as problem
{%- endmacro %}


{% macro test_problem(relation, found, expected, instead) -%}
  {{ return(
      "Cannot tell: test '" ~ model.name ~ "' of " ~ relation.schema ~ '.' ~ relation.identifier
      ~ '\n  found:    ' ~ found ~ '\n  expected: ' ~ expected ~ '\n  instead:  ' ~ instead ~ '\n'
  ) }}
{%- endmacro %}


{% macro raise_argument_error(test, argument, found, expected, instead) -%}
  {% do exceptions.raise_compiler_error(
      'Invalid `' ~ argument ~ '` of ' ~ test ~ " in test '" ~ model.name ~ "'."
      ~ '\n  found:    ' ~ found ~ '\n  expected: ' ~ expected ~ '\n  instead:  ' ~ instead
  ) %}
{%- endmacro %}
