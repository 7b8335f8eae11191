{#-
  Says what is wrong with the config of a bucketed or organized model while dbt parses the project, where its dbt_project.yml lets this package name tables:

    dispatch:
      - macro_namespace: dbt
        search_order: [my_project, spark_bucketing, dbt]

  dbt asks for the name of a model's table as soon as it knows the model's config. The name is the one that dbt itself gives.
-#}
{% macro spark__generate_alias_name(custom_alias_name=none, node=none) -%}
  {%- set kind = node.config.materialized -%}
  {%- if kind in ['bucketed_table', 'bucketed_incremental', 'organized_table', 'organized_incremental'] -%}
    {#- What a model is in a run: dictionaries. -#}
    {%- set parsed = {'name': node.name, 'config': node.config.to_dict(omit_none=true)} -%}
    {%- set layout = spark_bucketing.organized_config(parsed) if kind.startswith('organized') else spark_bucketing.bucketing_config(parsed) -%}
    {%- if kind == 'bucketed_incremental' -%}
      {% do spark_bucketing.incremental_config(layout, parsed) %}
    {%- elif kind == 'organized_incremental' -%}
      {% do spark_bucketing.organized_incremental_config(layout, parsed) %}
    {%- endif -%}
  {%- endif -%}
  {{ return(dbt.default__generate_alias_name(custom_alias_name, node)) }}
{%- endmacro %}
