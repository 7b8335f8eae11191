{% macro validate_bucket_type(column, bucket_hash) -%}
  {%- set types = spark_bucketing.bucket_types(bucket_hash) -%}
  {%- if not spark_bucketing.is_bucket_type(column.type, types) -%}
    {%- set found = column.name ~ ' ' ~ column.type -%}
    {%- if column.type in ['float', 'double'] -%}
      {% do spark_bucketing.raise_config_error('clustered_by', found,
          'a column of type ' ~ types | join(', ') ~ '. Spark never uses buckets by a ' ~ column.type ~ ' column, because it replaces -0.0 with 0.0 before it joins or groups',
          '`cast(' ~ column.name ~ ' as decimal(38, 9))` in every model that joins on it, or as bigint if it has no fractions') %}
    {%- elif column.type == 'void' -%}
      {% do spark_bucketing.raise_config_error('clustered_by', found ~ ', the type of a bare null', 'a column of type ' ~ types | join(', '),
          '`cast(' ~ column.name ~ ' as bigint)` in the model, or to its type in the tables that it joins') %}
    {%- elif bucket_hash != 'spark' -%}
      {% do spark_bucketing.raise_config_error('clustered_by', found,
          'a column of type ' ~ types | join(', ') ~ ' with bucket_hash=\'' ~ bucket_hash ~ '\'. Spark and Hive compute the same hash only for these types',
          '`cast(' ~ column.name ~ ' as string)` in the model, or bucket_hash=\'spark\''
          if spark_bucketing.is_bucket_type(column.type, spark_bucketing.bucket_types('spark')) else 'bucket by another column') %}
    {%- else -%}
      {% do spark_bucketing.raise_config_error('clustered_by', found, 'a column of type ' ~ types | join(', '), 'bucket by another column') %}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}
