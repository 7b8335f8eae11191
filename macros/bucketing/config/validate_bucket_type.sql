{% macro validate_bucket_type(column, bucket_hash) -%}
  {%- if not spark_bucketing.is_bucket_type(column.type, bucket_hash) -%}
    {%- set found = column.name ~ ' ' ~ column.type -%}
    {%- set types = spark_bucketing.bucket_types(bucket_hash) | join(', ') -%}
    {%- if bucket_hash == 'hive' -%}
      {% do spark_bucketing.raise_config_error('clustered_by', found,
          'for bucket_hash=\'hive\' a column of type ' ~ types ~ ': of these alone Spark and Hive are sure to agree on the hash',
          'cast(' ~ column.name ~ ' as string) in the model, or bucket_hash=\'spark\'' if spark_bucketing.is_bucket_type(column.type, 'spark')
          else 'bucket by another column') %}
    {%- else -%}
      {% do spark_bucketing.raise_config_error('clustered_by', found, 'a column of type ' ~ types, 'bucket by another column') %}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}
