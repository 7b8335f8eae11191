{% macro location_root_config(node=model) -%}
  {%- set value = node.config.get('location_root') -%}
  {%- if value is none -%}
    {{ return(none) }}
  {%- endif -%}
  {%- if value is not string or not value | trim -%}
    {% do spark_bucketing.raise_config_error('location_root', value, 'a directory', "location_root='s3a://bucket/warehouse'", node=node) %}
  {%- endif -%}
  {%- if modules.re.search('[][{}*?]', value) -%}
    {% do spark_bucketing.raise_config_error('location_root', value, 'a directory without [ ] { } * ?, which Spark reads as glob patterns',
        'choose another directory', node=node) %}
  {%- endif -%}
  {{ return(value | trim) }}
{%- endmacro %}
