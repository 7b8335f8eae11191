{#-
  Returns the config of an organized model, from model_config(), as a layout without buckets.

  file_count: {setting, value}, the key that determines the number of files, and its value, which is in bytes for target_file_size
  range_boundaries_from: {of, names}, 'ref' or 'source' and its arguments, or none. The config contains text, because dbt cannot store a relation in it
-#}
{% macro organized_config(node=model) -%}
  {%- set layout = spark_bucketing.model_config(node) -%}
  {%- for setting in ['rows_per_file', 'target_file_size', 'num_files', 'files_per_partition'] if layout[setting] -%}
    {%- do layout.update({'file_count': {'setting': setting, 'value': layout[setting]}}) -%}
  {%- endfor -%}
  {%- set words = modules.re.findall('[^"\'(),]+', layout.range_boundaries_from or '') | map('trim') | select | list -%}
  {{ return(dict({'file_count': {'setting': 'range_boundaries_from', 'value': 1}}, **dict(layout,
      clustered_by=[],
      sorted_by=[],
      bucket_hash='spark',
      scale_factor=layout.scale_factor or 1,
      range_boundaries_from={'of': words[0] if words[1:] else 'ref', 'names': words[1:] or words} if words else none,
  ))) }}
{%- endmacro %}
