{#-
  Returns the table layout that a model's config defines, with the defaults of its materialization. Returns an empty dict if the relation is
  not a model, or is a model without buckets.
-#}
{% macro configured_layout(relation) -%}
  {%- set node = spark_bucketing.tested_node(relation) -%}
  {%- if node is none or not node.config.get('clustered_by') -%}
    {{ return({}) }}
  {%- endif -%}
  {%- set config = node.config -%}
  {%- set ours = config.materialized in ['bucketed_table', 'bucketed_incremental'] -%}
  {%- set bucket_hash = (config.get('bucket_hash') or 'hive') | lower if ours else 'spark' -%}
  {%- set sorted_by = config.get('sorted_by') if ours else [] -%}
  {%- set layout = {
      'bucket_hash': bucket_hash,
      'buckets': config.get('buckets'),
      'clustered_by': config.clustered_by,
      'sorted_by': config.clustered_by if sorted_by is none else sorted_by,
      'partition_by': config.get('partition_by') or [],
      'file_format': config.get('file_format') or 'parquet',
  } -%}
  {%- if bucket_hash != 'spark' -%}
    {%- do layout.update({'bucketing_version': spark_bucketing.bucketing_versions()[bucket_hash]}) -%}
  {%- endif -%}
  {{ return(layout) }}
{%- endmacro %}


{#- Returns a name, a list of names or a number as lower-case text for comparison, because Spark ignores the case of names. -#}
{% macro property_text(value) -%}
  {%- set text = value if value is string or value is number else value | join(', ') -%}
  {{ return(text | string | lower | trim) }}
{%- endmacro %}
