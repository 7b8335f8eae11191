{#-
  Returns a layout as text, for messages and comparisons. Column names are lower-case, because Spark ignores their case. The text names a
  bucketing version that is not supported, for which `bucket_hash` is only a guess.
-#}
{% macro describe_layout(layout) -%}
  {%- if not layout.buckets -%}
    {{ return('no buckets, ' ~ layout.file_format ~ ', partitioned by (' ~ layout.partition_by | join(', ') | lower ~ ')') }}
  {%- endif -%}
  {%- set versions = spark_bucketing.bucketing_versions().values() -%}
  {%- set is_known = layout.bucket_hash == 'spark' or (layout.bucketing_version or '1') in versions -%}
  {{ return(
      layout.bucket_hash ~ ' layout' ~ ('' if is_known else " with 'bucketing_version' = '" ~ layout.bucketing_version ~ "', which is neither '"
          ~ versions | join("' nor '") ~ "'") ~ ', ' ~ layout.file_format
      ~ ', partitioned by (' ~ layout.partition_by | join(', ') | lower
      ~ '), clustered by (' ~ layout.clustered_by | join(', ') | lower
      ~ '), sorted by (' ~ layout.sorted_by | join(', ') | lower
      ~ '), ' ~ layout.buckets ~ ' buckets'
  ) }}
{%- endmacro %}
