{#-
  What Spark says against a query before it runs it; empty for nothing. EXPLAIN has errors in its result, where SQL can read them: a
  statement that fails ends the run.
-#}
{% macro planning_error(query) -%}
  {{ return(spark_bucketing.error_in_plan(run_query('explain ' ~ query).columns[0].values() | join('\n'))) }}
{%- endmacro %}


{#- The text of EXPLAIN, where it is an error; empty for a plan. -#}
{% macro error_in_plan(plan) -%}
  {#- An error of the analysis stands in the plan's place, any other in that of the whole text. -#}
  {%- set error = '^(?:== Physical Plan ==\\s*)?(?:Error occurred during query planning|[A-Za-z.]+Exception\\b)' -%}
  {{ return(plan if modules.re.match(error, plan) else '') }}
{%- endmacro %}


{#- Whether there is such a directory; a pattern stands for several. -#}
{% macro directory_exists(location) -%}
  {%- set error = spark_bucketing.planning_error('select 1 from binaryFile.' ~ spark_bucketing.quote_identifier(location)) -%}
  {%- if error and 'PATH_NOT_FOUND' not in error and 'Conflicting' not in error -%}
    {#- Spark refuses directories whose names are no partitions of one table. They are there. -#}
    {% do exceptions.raise_compiler_error("Model '" ~ model.name ~ "': it cannot be told whether there is a directory " ~ location ~ '.\n  found:    ' ~ error
        ~ '\n  expected: a place that Spark can list\n  instead:  give it access, and run the model again') %}
  {%- endif -%}
  {{ return('PATH_NOT_FOUND' not in error) }}
{%- endmacro %}
