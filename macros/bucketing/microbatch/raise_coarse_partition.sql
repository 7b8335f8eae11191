{% macro raise_coarse_partition(found, layout) -%}
  {% do spark_bucketing.raise_config_error('partition_by', layout.partition_by | join(', ') ~ ": " ~ found,
      "partitions that lie within one batch in UTC (batch_size='" ~ config.get('batch_size') ~ "'): a batch replaces its partitions as a whole, and other batches' rows would be lost",
      'a finer partition column, or a larger batch_size') %}
{%- endmacro %}
