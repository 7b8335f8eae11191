{% macro validate_bucket_type(column, bucket_hash) -%}
  {%- set types = spark_bucketing.bucket_types(bucket_hash) -%}
  {%- if not spark_bucketing.is_bucket_type(column.type, types) -%}
    {%- set found = column.name ~ ' ' ~ column.type -%}
    {%- if column.type in ['float', 'double'] -%}
      {% do spark_bucketing.raise_config_error('clustered_by', found,
          'a column of type ' ~ types | join(', ') ~ ': Spark never reads buckets of a ' ~ column.type ~ ', since it joins and groups by 0.0 where the column has -0.0',
          'cast(' ~ column.name ~ ' as decimal(38, 9)) in the model, or as bigint where there are no fractions, in all tables that are joined by it') %}
    {%- elif column.type == 'void' -%}
      {% do spark_bucketing.raise_config_error('clustered_by', found ~ ', the type of a bare null', 'a column of type ' ~ types | join(', '),
          'cast(' ~ column.name ~ ' as bigint) in the model, or as what it is in the tables that are joined by it') %}
    {%- elif bucket_hash == 'hive' -%}
      {% do spark_bucketing.raise_config_error('clustered_by', found,
          'for bucket_hash=\'hive\' a column of type ' ~ types | join(', ') ~ ': of these alone Spark and Hive are sure to agree on the hash',
          'cast(' ~ column.name ~ ' as string) in the model, or bucket_hash=\'spark\''
          if spark_bucketing.is_bucket_type(column.type, spark_bucketing.bucket_types('spark')) else 'bucket by another column') %}
    {%- else -%}
      {% do spark_bucketing.raise_config_error('clustered_by', found, 'a column of type ' ~ types | join(', '), 'bucket by another column') %}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}
