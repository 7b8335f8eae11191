{#-
  Raises an error if the config and the table differ in anything besides their bucket specs. Existing partitions keep their files, so Spark must be
  able to read these files after the table is altered. All sealed partitions must have the bucketing version of the config.

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
  {%- set expected = version ~ "', the version of bucket_hash='" ~ layout.bucket_hash ~ "'; Spark cannot combine partitions of different versions" -%}
  {%- if existing.buckets and existing.bucket_hash == 'spark' -%}
    {% do spark_bucketing.raise_config_error('on_bucket_change', found,
        'a table in the Hive layout or without buckets; in the Spark layout, stock Spark reads all partitions with the same number of buckets', instead) %}
  {%- elif existing.buckets and existing.bucketing_version != version -%}
    {% do spark_bucketing.raise_config_error('on_bucket_change', found ~ ", with the table property 'bucketing_version' = '" ~ existing.bucketing_version ~ "'",
        "a table with 'bucketing_version' = '" ~ expected, instead) %}
  {%- elif not existing.buckets and existing.partition_by and spark_bucketing.extension_enabled() -%}
    {#- A table that is NOT CLUSTERED may have partitions that were sealed before. -#}
    {%- set sealed = run_query("select min(partition), count(*), max(hash) from bucket_specs(" ~ spark_bucketing.string_literal(spark_bucketing.quote_relation(this))
        ~ ") where status = 'sealed' and hash <> '" ~ layout.bucket_hash ~ "'").rows[0] -%}
    {%- if sealed[1] -%}
      {% do spark_bucketing.raise_config_error('on_bucket_change', found ~ ', with ' ~ sealed[1] ~ ' sealed partition(s) of the layout ' ~ sealed[2] ~ ', such as ' ~ sealed[0],
          "partitions with 'bucketing_version' = '" ~ expected, instead) %}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}
