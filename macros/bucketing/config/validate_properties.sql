{#- Raises an error for table properties and options that contradict the layout. -#}
{% macro validate_properties(layout, node=model) -%}
  {%- set expected = spark_bucketing.bucketing_versions().get(layout.bucket_hash, '1') -%}
  {%- set version = layout.tblproperties.get('bucketing_version', expected) | string -%}
  {%- if version != expected -%}
    {% do spark_bucketing.raise_config_error('tblproperties', 'bucketing_version = ' ~ version, "the version of `bucket_hash`: '1' for hive, '2' for hive2",
        "remove 'bucketing_version'" ~ (", and set bucket_hash='hive2'" if version == '2' else ''), node=node) %}
  {%- endif -%}
  {%- for key in layout.tblproperties if key.startswith('bucketing.') -%}
    {% do spark_bucketing.raise_config_error('tblproperties', key ~ ' = ' ~ layout.tblproperties[key],
        "no key that starts with 'bucketing.': the package reserves this prefix for its own metadata",
        "remove or rename '" ~ key ~ "'", node=node) %}
  {%- endfor -%}
  {%- for setting in ['tblproperties', 'options'] -%}
    {%- for key in layout[setting] if key | lower in ['maxrecordsperfile', 'partitionoverwritemode', 'path'] -%}
      {% do spark_bucketing.raise_config_error(setting, key ~ ' = ' ~ layout[setting][key], 'no option that changes the location or the number of files',
          "remove '" ~ key ~ "'; set the number of files with " ~ ('`buckets`' if layout.clustered_by else '`target_file_size` or `num_files`') ~ ', and the location with `location_root`', node=node) %}
    {%- endfor -%}
  {%- endfor -%}
{%- endmacro %}
