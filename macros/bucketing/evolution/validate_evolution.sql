{#-
  Raises where the difference between the config's layout and the table's is more than a bucket spec: the files of old
  partitions, which stay, must be ones that the new table can read.

  existing: table_layout() of the table
-#}
{% macro validate_evolution(layout, existing) -%}
  {%- set instead = "on_bucket_change='rebuild' to rewrite the table's rows in the new layout, or dbt run --full-refresh" -%}
  {%- set found = 'evolve, and the table is\n              ' ~ spark_bucketing.describe_layout(existing) -%}
  {%- for setting in ['file_format', 'partition_by'] if spark_bucketing.property_text(layout[setting]) != spark_bucketing.property_text(existing[setting]) -%}
    {% do spark_bucketing.raise_config_error('on_bucket_change', found, 'a table with ' ~ setting ~ '='
        ~ (layout[setting] if setting == 'file_format' else '[' ~ layout[setting] | join(', ') ~ ']')
        ~ ': what evolves is `clustered_by`, `buckets` and `sorted_by`', instead) %}
  {%- endfor -%}
  {%- if existing.buckets and existing.bucket_hash != 'hive' -%}
    {% do spark_bucketing.raise_config_error('on_bucket_change', found,
        'a table of the Hive layout, or one without buckets: stock Spark reads all partitions of the Spark layout by one number of buckets', instead) %}
  {%- elif existing.bucketing_version | trim != '1' -%}
    {% do spark_bucketing.raise_config_error('on_bucket_change', found ~ ', bucketing_version ' ~ existing.bucketing_version,
        'bucketing_version 1, whose hash Spark computes', instead) %}
  {%- endif -%}
{%- endmacro %}
