{#-
  What rows are to be hashed by: bucket_key_columns() where the session cannot be asked for specs, otherwise tested_specs() with
  `key_columns` in each group. {problem} where a hash is not certain.
-#}
{% macro specs_with_keys(tested, relation, layout) -%}
  {%- set specs = spark_bucketing.tested_specs(tested, relation, layout) -%}
  {%- if specs is none -%}
    {{ return(spark_bucketing.bucket_key_columns(relation, layout)) }}
  {%- endif -%}
  {%- if specs.loose -%}
    {%- for group in specs.groups -%}
      {%- set keys = spark_bucketing.bucket_key_columns(relation, dict(layout, clustered_by=group.clustered_by)) -%}
      {%- if keys.problem -%}
        {{ return(keys) }}
      {%- endif -%}
      {%- do group.update({'key_columns': keys.columns}) -%}
    {%- endfor -%}
  {%- endif -%}
  {{ return(specs) }}
{%- endmacro %}
