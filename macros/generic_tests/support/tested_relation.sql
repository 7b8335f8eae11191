{#-
  The relation under test. dbt hands a test the relation itself, or, with a `where`, a subquery of it; then it is that of
  the node or source that the test is attached to.
-#}
{% macro tested_relation(tested) -%}
  {%- if tested is not string -%}
    {{ return(tested) }}
  {%- elif model.attached_node -%}
    {{ return(spark_bucketing.graph_relation(graph.nodes[model.attached_node])) }}
  {%- elif model.sources -%}
    {{ return(spark_bucketing.graph_source(model.sources[0][0], model.sources[0][1])) }}
  {%- endif -%}
  {% do exceptions.raise_compiler_error(
      "Test '" ~ model.name ~ "' was given the query " ~ tested ~ ' and no table. Give it a model, snapshot, seed or source.'
  ) %}
{%- endmacro %}


{#- What the rows under test are selected from: the quoted relation, or the subquery of its `where`. -#}
{% macro tested_rows(tested) -%}
  {{ return(tested if tested is string else spark_bucketing.quote_relation(tested)) }}
{%- endmacro %}
