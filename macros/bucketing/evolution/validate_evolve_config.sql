{#- Raises an error if other settings contradict on_bucket_change='evolve'. -#}
{% macro validate_evolve_config(layout, node=model) -%}
  {%- if layout.on_bucket_change == 'evolve' -%}
    {%- if node.config.get('materialized') != 'bucketed_incremental' -%}
      {% do spark_bucketing.raise_config_error('on_bucket_change', "evolve, with materialized='" ~ node.config.get('materialized') ~ "'",
          "materialized='bucketed_incremental'; other materializations rewrite all partitions in every run", "remove `on_bucket_change`, or set materialized='bucketed_incremental'", node=node) %}
    {%- elif layout.bucket_hash == 'spark' -%}
      {% do spark_bucketing.raise_config_error('on_bucket_change', "evolve, with bucket_hash='" ~ layout.bucket_hash ~ "'",
          "bucket_hash='hive'; in the Spark layout, stock Spark drops rows of partitions whose number of buckets differs from the table's",
          "bucket_hash='hive', or on_bucket_change='rebuild'", node=node) %}
    {%- elif not layout.partition_by -%}
      {% do spark_bucketing.raise_config_error('on_bucket_change', 'evolve, without `partition_by`',
          'a partitioned table; each partition keeps the bucket spec it was written with', "partition_by=['the_day'], or on_bucket_change='rebuild'", node=node) %}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}
