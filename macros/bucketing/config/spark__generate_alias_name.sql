{#-
  Validates the config of bucketed and organized models while dbt parses the project. To enable this check, add to dbt_project.yml:

    dispatch:
      - macro_namespace: dbt
        search_order: [my_project, spark_bucketing, dbt]

  dbt calls this macro as soon as it knows the config of a model. The macro returns the same name as dbt's default.
-#}
{% macro spark__generate_alias_name(custom_alias_name=none, node=none) -%}
  {%- if node.config.materialized in spark_bucketing.config_schema().materializations -%}
    {#- While dbt parses the project, `config` is an object. The validation macros expect a dictionary, which `config` is during a run. -#}
    {%- set parsed = {'name': node.name, 'config': node.config.to_dict(omit_none=true)} -%}
    {%- set layout = spark_bucketing.model_config(parsed) -%}
    {%- if 'incremental_strategy' in layout -%}
      {% do spark_bucketing.incremental_config(layout, parsed) %}
    {%- endif -%}
  {%- endif -%}
  {{ return(dbt.default__generate_alias_name(custom_alias_name, node)) }}
{%- endmacro %}
