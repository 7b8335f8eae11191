{#-
  Returns the rendered SQL of the model that builds a relation, as a dict {text}. If the SQL cannot be rendered, returns {problem}.

  dbt provides only the raw code of other nodes to a test, and ref() in a test resolves only dependencies of the test. This macro therefore renders
  the model with replacements for ref(), source() and this.

  incremental: bool, the value that is_incremental() returns in the model
-#}
{% macro model_sql(relation, incremental=false) -%}
  {%- set node = spark_bucketing.tested_node(relation) -%}
  {%- set instead = 'add the argument `query` with the SQL to the test' -%}
  {%- if node is none or node.resource_type not in ['model', 'snapshot'] or node.language != 'sql' -%}
    {{ return({'problem': spark_bucketing.test_problem(relation, 'no SQL model of this project', 'a SQL model or snapshot', instead)}) }}
  {%- elif modules.re.search('\\bconfig\\s*[.]\\s*(get|require|persist_)', node.raw_code) -%}
    {{ return({'problem': spark_bucketing.test_problem(relation, 'a model whose SQL reads its own config', 'SQL that does not read config values', instead)}) }}
  {%- endif -%}
  {{ return({'text': spark_bucketing.render_node(node, incremental)}) }}
{%- endmacro %}


{#- Renders the SQL of a node in the graph, and restores the context. -#}
{% macro render_node(node, incremental=false) -%}
  {%- set own = {
      'this': spark_bucketing.graph_relation(node),
      'model': node,
      'ref': spark_bucketing.graph_ref,
      'source': spark_bucketing.graph_source,
      'is_incremental': spark_bucketing.is_incremental,
      '__spark_bucketing_is_incremental': incremental,
  } -%}
  {%- do own.update({'builtins': dict(builtins, ref=own.ref, source=own.source)}) -%}
  {{ return(spark_bucketing.render_with(node.raw_code, own)) }}
{%- endmacro %}
