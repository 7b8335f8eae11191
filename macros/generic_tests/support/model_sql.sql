{#-
  The SQL of the model with this relation, as {text}, or {problem}. dbt gives a test only the raw code of other nodes, and lets it
  ref() nothing but its own; so the model is rendered here with a ref(), source() and this of its own.

  incremental: what is_incremental() answers in the model
-#}
{% macro model_sql(relation, incremental=false) -%}
  {%- set node = spark_bucketing.tested_node(relation) -%}
  {%- set instead = 'give the test `query`, the SQL to look at' -%}
  {%- if node is none or node.resource_type not in ['model', 'snapshot'] or node.language != 'sql' -%}
    {{ return({'problem': spark_bucketing.test_problem(relation, 'no SQL of this project that makes it', 'a SQL model', instead)}) }}
  {%- elif modules.re.search('\\bconfig\\s*[.]\\s*(get|require|persist_)', node.raw_code) -%}
    {{ return({'problem': spark_bucketing.test_problem(relation, 'a model whose SQL reads its own config', 'SQL that a test can render', instead)}) }}
  {%- endif -%}
  {{ return({'text': spark_bucketing.render_node(node, incremental)}) }}
{%- endmacro %}


{#- The SQL of a node of the graph; the context is as before afterwards. -#}
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
