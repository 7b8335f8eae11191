{#- What on_bucket_change='evolve' needs of the rest of the config. -#}
{% macro validate_evolve_config(layout, node=model) -%}
  {%- if layout.on_bucket_change == 'evolve' -%}
    {%- if node.config.get('materialized') != 'bucketed_incremental' -%}
      {% do spark_bucketing.raise_config_error('on_bucket_change', "evolve, with materialized='" ~ node.config.get('materialized') ~ "'",
          "materialized='bucketed_incremental': every run of another model rewrites all of its partitions", "leave `on_bucket_change` out, or materialized='bucketed_incremental'", node=node) %}
    {%- elif layout.bucket_hash != 'hive' -%}
      {% do spark_bucketing.raise_config_error('on_bucket_change', "evolve, with bucket_hash='" ~ layout.bucket_hash ~ "'",
          "bucket_hash='hive': stock Spark reads all partitions of the Spark layout by the table's one number of buckets, and drops rows of those that have another",
          "bucket_hash='hive', or on_bucket_change='rebuild'", node=node) %}
    {%- elif not layout.partition_by -%}
      {% do spark_bucketing.raise_config_error('on_bucket_change', 'evolve, without `partition_by`',
          'a partitioned table: each partition keeps the buckets that it was written with', "partition_by=['the_day'], or on_bucket_change='rebuild'", node=node) %}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}
