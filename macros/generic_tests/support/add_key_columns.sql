{#-
  Adds `key_columns`, what rows are to be hashed by, to each group of the specs of a test. Returns the problem where a hash is not certain.

  tested: from tested()
-#}
{% macro add_key_columns(tested) -%}
  {%- for group in tested.specs.groups if tested.specs.loose -%}
    {%- set keys = spark_bucketing.bucket_key_columns(tested.relation, dict(tested.layout, clustered_by=group.clustered_by)) -%}
    {%- if keys.problem -%}
      {{ return(keys.problem) }}
    {%- endif -%}
    {%- do group.update({'key_columns': keys.columns}) -%}
  {%- endfor -%}
{%- endmacro %}
