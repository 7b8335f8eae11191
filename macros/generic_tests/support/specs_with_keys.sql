{#-
  What rows are to be hashed by: bucket_key_columns() of a table with one spec, and of one that has evolved tested_specs()
  with `key_columns` in each group that has buckets. {problem} where a hash is not certain.
-#}
{% macro specs_with_keys(relation, layout) -%}
  {%- set specs = spark_bucketing.tested_specs(relation, layout) -%}
  {%- if specs is none -%}
    {{ return(spark_bucketing.bucket_key_columns(relation, layout)) }}
  {%- endif -%}
  {%- for group in specs.get('groups', []) if group.buckets -%}
    {%- set keys = spark_bucketing.bucket_key_columns(relation, dict(layout, clustered_by=group.clustered_by)) -%}
    {%- if keys.problem -%}
      {{ return(keys) }}
    {%- endif -%}
    {%- do group.update({'key_columns': keys.columns}) -%}
  {%- endfor -%}
  {{ return(specs) }}
{%- endmacro %}
