{#-
  Implements ref() for the SQL of any node: ref(name) or ref(package, name), with version or v. For an ephemeral model, the result is a subquery.
  Without a package, the macro searches in the same order as dbt: in this project, in the package that contains the SQL, and in all other packages.
-#}
{% macro graph_ref() -%}
  {%- set name = varargs[-1] -%}
  {%- set package = varargs[0] if varargs | length == 2 else none -%}
  {%- set version = kwargs.get('version', kwargs.get('v')) -%}
  {%- set candidates = [] -%}
  {%- for node in graph.nodes.values()
      if node.name == name and node.resource_type in ['model', 'seed', 'snapshot'] and package in [none, node.package_name] -%}
    {%- set node_version = node.get('version') -%}
    {%- if node_version is none or node_version | string == (node.latest_version if version is none else version) | string -%}
      {%- do candidates.append(node) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- set ranked = candidates | selectattr('package_name', 'equalto', project_name) | list
      + candidates | selectattr('package_name', 'equalto', model.package_name) | list + candidates -%}
  {%- if not ranked -%}
    {% do exceptions.raise_compiler_error(spark_bucketing.error_message('Test `' ~ model.name ~ '` reads a query that refers to `' ~ name ~ '`, which is not in the project.',
        none, 'a model, seed or snapshot', 'correct the name, or enable the node')) %}
  {%- elif ranked[0].config.materialized == 'ephemeral' -%}
    {{ return('(\n' ~ spark_bucketing.render_node(ranked[0]) ~ '\n)') }}
  {%- endif -%}
  {{ return(spark_bucketing.graph_relation(ranked[0])) }}
{%- endmacro %}


{#- Implements source() for the SQL of any node. -#}
{% macro graph_source(source_name, table_name) -%}
  {%- for source in graph.sources.values() if source.source_name == source_name and source.name == table_name -%}
    {{ return(api.Relation.create(schema=source.schema, identifier=source.identifier)) }}
  {%- endfor -%}
  {% do exceptions.raise_compiler_error(spark_bucketing.error_message(
      'Test `' ~ model.name ~ '` reads a query that refers to the source `' ~ source_name ~ '.' ~ table_name ~ '`, which is not in the project.',
      none, 'a source of the project', 'correct the name, or enable the source')) %}
{%- endmacro %}
