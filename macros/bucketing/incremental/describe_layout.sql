{#- Returns a layout as text, for messages and comparisons. Column names are lower-case, because Spark ignores their case. -#}
{% macro describe_layout(layout) -%}
  {%- if not layout.buckets -%}
    {{ return('no buckets, ' ~ layout.file_format ~ ', partitioned by (' ~ layout.partition_by | join(', ') | lower ~ ')') }}
  {%- endif -%}
  {{ return(
      layout.bucket_hash ~ ' layout, ' ~ layout.file_format
      ~ ', partitioned by (' ~ layout.partition_by | join(', ') | lower
      ~ '), clustered by (' ~ layout.clustered_by | join(', ') | lower
      ~ '), sorted by (' ~ layout.sorted_by | join(', ') | lower
      ~ '), ' ~ layout.buckets ~ ' buckets'
  ) }}
{%- endmacro %}
