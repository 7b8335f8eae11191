{#-
  Returns the table layout that a model's config requests, with the default values of its materialization. Returns an empty dict if the relation does
  not belong to a model, or if the model has no buckets.
-#}
{% macro configured_layout(relation) -%}
  {%- set node = spark_bucketing.tested_node(relation) -%}
  {%- if node is none or not node.config.get('clustered_by') -%}
    {{ return({}) }}
  {%- endif -%}
  {%- set ours = node.config.materialized in ['bucketed_table', 'bucketed_incremental'] -%}
  {%- set config = spark_bucketing.model_config(node) if ours else node.config -%}
  {%- set bucket_hash = config.bucket_hash if ours else spark_bucketing.config_value('bucket_hash',
      spark_bucketing.config_schema()['keys']['bucket_hash'], config.get('bucket_hash') or 'spark', node) -%}
  {%- set layout = {
      'bucket_hash': bucket_hash,
      'buckets': config.get('buckets'),
      'clustered_by': config.clustered_by,
      'sorted_by': config.sorted_by if ours else [],
      'partition_by': config.get('partition_by') or [],
      'file_format': config.get('file_format') or 'parquet',
  } -%}
  {%- if bucket_hash != 'spark' -%}
    {%- do layout.update({'bucketing_version': spark_bucketing.bucketing_versions()[bucket_hash]}) -%}
  {%- endif -%}
  {{ return(layout) }}
{%- endmacro %}


{#- Converts a name, a list of names or a number to lower-case text, so that names can be compared. Spark ignores the case of names. -#}
{% macro property_text(value) -%}
  {%- set text = value if value is string or value is number else value | join(', ') -%}
  {{ return(text | string | lower | trim) }}
{%- endmacro %}
