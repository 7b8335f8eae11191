{#-
  Returns a query that fails with a message, because an inconclusive test must not pass. The query fails only when it runs, so that `dbt compile` and
  `dbt docs generate` work before the table exists. Spark's optimizer never removes the filter that raises the error.
-#}
{% macro inconclusive_sql(problem) -%}
  {%- set message = spark_bucketing.string_literal(problem) -%}
  select {{ message }} as problem where raise_error({{ message }}) is null
{%- endmacro %}


{#- Returns a query that returns one row with a message, so that the test fails without an error. -#}
{% macro failure_sql(problem) -%}
  {% do spark_bucketing.log_test(problem) %}
  select {{ spark_bucketing.string_literal(problem) }} as problem
{%- endmacro %}


{% macro test_problem(relation, found, expected, instead) -%}
  {{ return(spark_bucketing.error_message(
      'Cannot run test `' ~ model.name ~ '` on table `' ~ relation.schema ~ '.' ~ relation.identifier ~ '`.', found, expected, instead
  ) ~ '\n') }}
{%- endmacro %}


{% macro raise_argument_error(test, argument, found, expected, instead) -%}
  {% do exceptions.raise_compiler_error(spark_bucketing.error_message(
      'Test `' ~ model.name ~ '` has an invalid argument `' ~ argument ~ '` for ' ~ test ~ '.', found, expected, instead
  )) %}
{%- endmacro %}


{#- Logs a message of a test that runs. `dbt compile` and `dbt docs generate` also render the SQL of tests, and log nothing. -#}
{% macro log_test(text) -%}
  {% do log(text, info=flags.WHICH in ['test', 'build', 'retry']) %}
{%- endmacro %}
