{#-
  Returns the layout with the column names of the table. File statistics contain these names, and the query may spell them in another case.

  Raises an error if the table's layout differs from the config. Only a full refresh can change the layout.

  existing: dict, table_layout() of the table
-#}
{% macro layout_of_table(layout, existing) -%}
  {%- if spark_bucketing.describe_layout(layout) != spark_bucketing.describe_layout(existing) -%}
    {% do spark_bucketing.raise_config_error('partition_by' if layout.file_format == existing.file_format else 'file_format', spark_bucketing.describe_layout(layout),
        'the layout of the table: ' ~ spark_bucketing.describe_layout(existing), 'run `dbt run --full-refresh`, which rebuilds the table') %}
  {%- endif -%}
  {%- for setting in ['range_by', 'implicit_partition_by'] if layout[setting] | map('lower') | list != existing[setting] | map('lower') | list -%}
    {% do spark_bucketing.raise_config_error(setting, layout[setting] | join(', ') or 'none', 'the `' ~ setting ~ '` of the table: ' ~ (existing[setting] | join(', ') or 'none'),
        'run `dbt run --full-refresh`, which rebuilds the table') %}
  {%- endfor -%}
  {{ return(dict(layout, partition_by=existing.partition_by, range_by=existing.range_by, implicit_partition_by=existing.implicit_partition_by)) }}
{%- endmacro %}
