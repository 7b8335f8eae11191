{#-
  What the config of the model with this relation says about the table's layout, defaults filled in as the model's
  materialization does; empty for a table that is not a model or a model without buckets. Only what the config decides is in it.
-#}
{% macro configured_layout(relation) -%}
  {%- set node = spark_bucketing.tested_node(relation) -%}
  {%- if node is none or not node.config.get('clustered_by') -%}
    {{ return({}) }}
  {%- endif -%}
  {%- set config = node.config -%}
  {%- set ours = config.materialized in ['bucketed_table', 'bucketed_incremental'] -%}
  {%- set hive = ours and (config.get('bucket_hash') or 'hive') | lower == 'hive' -%}
  {%- set sorted_by = config.get('sorted_by') if ours else [] -%}
  {%- set layout = {
      'bucket_hash': 'hive' if hive else 'spark',
      'buckets': config.get('buckets'),
      'clustered_by': config.clustered_by,
      'sorted_by': config.clustered_by if sorted_by is none else sorted_by,
      'partition_by': config.get('partition_by') or [],
      'file_format': config.get('file_format') or 'parquet',
  } -%}
  {%- if hive -%}
    {%- do layout.update({'bucketing_version': '1'}) -%}
  {%- endif -%}
  {{ return(layout) }}
{%- endmacro %}


{#- One name or many, or a number, as text that can be compared: without case, as Spark compares names. -#}
{% macro property_text(value) -%}
  {%- set text = value if value is string or value is number else value | join(', ') -%}
  {{ return(text | string | lower | trim) }}
{%- endmacro %}
