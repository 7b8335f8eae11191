{% macro raise_coarse_partition(found, layout) -%}
  {% do spark_bucketing.raise_config_error('partition_by', layout.partition_by | join(', ') ~ ": " ~ found,
      "partitions within one batch in UTC (batch_size='" ~ config.get('batch_size') ~ "'); a batch replaces whole partitions, so rows of other batches would be lost",
      'use a finer partition column, or a larger batch_size') %}
{%- endmacro %}
