{#- Validates a layout against the columns of an organized table, and returns the layout in the same form as resolve_layout(). -#}
{% macro resolve_organized_layout(layout, columns) -%}
  {%- for column in columns if column.name | lower == '_metadata' or (column.name | lower).startswith('__spark_bucketing_') -%}
    {% do spark_bucketing.raise_column_error('a column with the name ' ~ column.name,
        'no reserved column names; the package uses this name when it writes the files', 'rename the column in the model') %}
  {%- endfor -%}
  {%- set types = spark_bucketing.config_schema().range_types -%}
  {%- for setting in ['range_by', 'implicit_partition_by'] -%}
    {%- for column in columns if column.name | lower in layout[setting] | map('lower') | list and not spark_bucketing.is_bucket_type(column.type, types) -%}
      {% do spark_bucketing.raise_config_error(setting, column.name ~ ' ' ~ column.type,
          'a column of a numeric, string, date, timestamp or boolean type without a collation',
          'choose another column, or cast this column in the model') %}
    {%- endfor -%}
    {%- for column in columns if column.name | lower in layout[setting] | map('lower') | list and column.type | lower == 'timestamp' and layout.file_format == 'orc' -%}
      {% do spark_bucketing.raise_config_error(setting, column.name ~ ' timestamp, in ORC',
          "a type that does not depend on the time zone; ORC stores timestamps in the writer's local time",
          "file_format='parquet', or `cast(" ~ column.name ~ ' as timestamp_ntz) as ' ~ column.name ~ '` in the model') %}
    {%- endfor -%}
  {%- endfor -%}
  {{ return(spark_bucketing.resolve_layout(layout, columns)) }}
{%- endmacro %}
