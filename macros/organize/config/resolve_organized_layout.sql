{#- resolve_layout(), and names that the columns of an organized table cannot have: its rows are found by Spark's hidden column. -#}
{% macro resolve_organized_layout(layout, columns) -%}
  {%- for column in columns if column.name | lower == '_metadata' or (column.name | lower).startswith('__spark_bucketing_') -%}
    {% do spark_bucketing.raise_column_error('a column called ' ~ column.name, 'another name: this one is needed while the rows are spread over files', 'another name for it') %}
  {%- endfor -%}
  {{ return(spark_bucketing.resolve_layout(layout, columns)) }}
{%- endmacro %}
