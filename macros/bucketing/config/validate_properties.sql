{#- Properties that would contradict the layout. Version 2 hashes are something that Spark cannot write. -#}
{% macro validate_properties(layout, node=model) -%}
  {%- set version = layout.tblproperties.get('bucketing_version', 1) -%}
  {%- if version | string != '1' -%}
    {% do spark_bucketing.raise_config_error('tblproperties', 'bucketing_version = ' ~ version, "bucketing_version = '1', the only one that Spark writes",
        "leave 'bucketing_version' out", node=node) %}
  {%- endif -%}
  {%- for key in layout.tblproperties if key.startswith('bucketing.') -%}
    {% do spark_bucketing.raise_config_error('tblproperties', key ~ ' = ' ~ layout.tblproperties[key], "no key that begins with 'bucketing.': these are the package's own records",
        "leave '" ~ key ~ "' out, or give it another name", node=node) %}
  {%- endfor -%}
  {%- for setting in ['tblproperties', 'options'] -%}
    {%- for key in layout[setting] if key | lower in ['maxrecordsperfile', 'partitionoverwritemode', 'path'] -%}
      {% do spark_bucketing.raise_config_error(setting, key ~ ' = ' ~ layout[setting][key], 'no setting that decides where and how many files are written',
          "leave '" ~ key ~ "' out; the number of files is " ~ ('`buckets`' if layout.clustered_by else '`target_file_size` or its like') ~ ', their place `location_root`', node=node) %}
    {%- endfor -%}
  {%- endfor -%}
{%- endmacro %}
