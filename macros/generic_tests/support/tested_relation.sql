{#-
  Returns the tested relation. If the test has a `where` config, dbt passes a subquery to the test. With `where`, the result is the relation of the node
  or source to which the test is attached.
-#}
{% macro tested_relation(tested) -%}
  {%- if tested is not string -%}
    {{ return(tested) }}
  {%- elif model.attached_node -%}
    {{ return(spark_bucketing.graph_relation(graph.nodes[model.attached_node])) }}
  {%- elif model.sources -%}
    {{ return(spark_bucketing.graph_source(model.sources[0][0], model.sources[0][1])) }}
  {%- endif -%}
  {% do exceptions.raise_compiler_error(spark_bucketing.error_message(
      'Test `' ~ model.name ~ '` received a query instead of a table.', tested, 'a table', 'attach the test to a model, snapshot, seed or source'
  )) %}
{%- endmacro %}


{#- Returns SQL for the tested rows: the quoted relation, or the subquery that dbt creates for `where`. -#}
{% macro tested_rows(tested) -%}
  {{ return(tested if tested is string else spark_bucketing.quote_relation(tested)) }}
{%- endmacro %}
