{#- resolve_layout(), and what the columns of an organized table cannot be: its rows are found by Spark's hidden column, and have ranges. -#}
{% macro resolve_organized_layout(layout, columns) -%}
  {%- for column in columns if column.name | lower == '_metadata' or (column.name | lower).startswith('__spark_bucketing_') -%}
    {% do spark_bucketing.raise_column_error('a column called ' ~ column.name, 'another name: this one is needed while the rows are spread over files', 'another name for it') %}
  {%- endfor -%}
  {%- for setting in ['range_by', 'implicit_partition_by'] -%}
    {%- for column in columns if column.name | lower in layout[setting] | map('lower') | list and not spark_bucketing.is_range_type(column.type) -%}
      {% do spark_bucketing.raise_config_error(setting, column.name ~ ' ' ~ column.type,
          'a column of numbers, text, dates, timestamps or booleans, whose order is that of their bytes',
          'another column, or a cast of this one in the model') %}
    {%- endfor -%}
    {%- for column in columns if column.name | lower in layout[setting] | map('lower') | list and column.type | lower == 'timestamp' and layout.file_format == 'orc' -%}
      {% do spark_bucketing.raise_config_error(setting, column.name ~ ' timestamp, in ORC',
          'for ORC a column whose values are the same in every time zone: it keeps the wall clock of the writer',
          "file_format='parquet', or cast(" ~ column.name ~ ' as timestamp_ntz) as ' ~ column.name ~ ' in the model') %}
    {%- endfor -%}
  {%- endfor -%}
  {{ return(spark_bucketing.resolve_layout(layout, columns)) }}
{%- endmacro %}


{#- Whether values of a type have least and greatest ones that filters can be compared with; under a collation other texts are equal. -#}
{% macro is_range_type(type) -%}
  {%- set name = type | lower -%}
  {{ return(name in ['tinyint', 'smallint', 'int', 'bigint', 'float', 'double', 'string', 'date', 'timestamp', 'timestamp_ntz', 'boolean'] or name.startswith('decimal(')) }}
{%- endmacro %}
