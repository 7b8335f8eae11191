{#-
  Raises an error if the config and the table differ in anything besides their bucket specs. Existing partitions keep their files, so Spark must be
  able to read these files after the table is altered.

  existing: dict, table_layout() of the table
-#}
{% macro validate_evolution(layout, existing) -%}
  {%- set instead = "on_bucket_change='rebuild' to rewrite the table's rows in the new layout, or `dbt run --full-refresh`" -%}
  {%- set found = 'evolve, and the table is\n  ' ~ spark_bucketing.describe_layout(existing) -%}
  {%- for setting in ['file_format', 'partition_by'] if spark_bucketing.property_text(layout[setting]) != spark_bucketing.property_text(existing[setting]) -%}
    {% do spark_bucketing.raise_config_error('on_bucket_change', found, 'a table with ' ~ setting ~ '='
        ~ (layout[setting] if setting == 'file_format' else '[' ~ layout[setting] | join(', ') ~ ']')
        ~ '; only `clustered_by`, `buckets` and `sorted_by` can evolve', instead) %}
  {%- endfor -%}
  {%- set version = spark_bucketing.bucketing_versions()[layout.bucket_hash] -%}
  {%- if existing.buckets and existing.bucket_hash == 'spark' -%}
    {% do spark_bucketing.raise_config_error('on_bucket_change', found,
        'a table in the Hive layout or without buckets; in the Spark layout, stock Spark reads all partitions with the same number of buckets', instead) %}
  {%- elif existing.buckets and existing.bucketing_version != version -%}
    {% do spark_bucketing.raise_config_error('on_bucket_change', found ~ ', bucketing_version ' ~ existing.bucketing_version,
        "a table with bucketing_version " ~ version ~ ", the version of bucket_hash='" ~ layout.bucket_hash ~ "'; Spark cannot combine partitions of different versions", instead) %}
  {%- endif -%}
{%- endmacro %}
