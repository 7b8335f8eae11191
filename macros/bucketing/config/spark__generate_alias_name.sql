{#-
  Says what is wrong with a bucketed model's config while dbt parses the project, where its dbt_project.yml lets this package name tables:

    dispatch:
      - macro_namespace: dbt
        search_order: [my_project, spark_bucketing, dbt]

  dbt asks for the name of a model's table as soon as it knows the model's config. The name is the one that dbt itself gives.
-#}
{% macro spark__generate_alias_name(custom_alias_name=none, node=none) -%}
  {%- if node.config.materialized in ['bucketed_table', 'bucketed_incremental'] -%}
    {#- What a model is in a run: dictionaries. -#}
    {%- set parsed = {'name': node.name, 'config': node.config.to_dict(omit_none=true)} -%}
    {%- set layout = spark_bucketing.bucketing_config(parsed) -%}
    {%- if node.config.materialized == 'bucketed_incremental' -%}
      {% do spark_bucketing.incremental_config(layout, parsed) %}
    {%- endif -%}
  {%- elif node.config.materialized == 'organized_table' -%}
    {% do spark_bucketing.organized_config({'name': node.name, 'config': node.config.to_dict(omit_none=true)}) %}
  {%- endif -%}
  {{ return(dbt.default__generate_alias_name(custom_alias_name, node)) }}
{%- endmacro %}
