{#-
  Validates a layout against the columns of the query, and returns the layout with the column names as the query spells them.

  In the Hive layout, the names of bucket and sort columns become lower case, also in `columns`. The Hive metastore stores column names in lower case.
  The metastore cannot alter or rename a table if the names of its bucket columns contain upper-case letters.
-#}
{% macro resolve_layout(layout, columns) -%}
  {%- if layout.clustered_by and not spark_bucketing.config_schema().hashes[layout.bucket_hash].stock -%}
    {#- Stock Spark always computes the bucket of a row with Hive's hash of version 1. No SQL expression can change this. -#}
    {% do spark_bucketing.require_extension('bucket_hash', layout.bucket_hash, 'stock Spark writes only the buckets of bucketing version 1', "bucket_hash='hive'") %}
  {%- endif -%}
  {%- set by_name = dict(zip(columns | map(attribute='name') | map('lower'), columns)) -%}
  {%- set resolved = dict(layout) -%}
  {%- for setting in ['clustered_by', 'sorted_by', 'partition_by', 'range_by', 'implicit_partition_by'] if layout[setting] -%}
    {%- set names = [] -%}
    {%- for name in layout[setting] -%}
      {%- set column = by_name.get(name | lower) -%}
      {%- if column is none -%}
        {%- set meant = spark_bucketing.nearest_name(name, columns | map(attribute='name') | list) -%}
        {% do spark_bucketing.raise_config_error(setting, name, 'a column that the query returns: ' ~ columns | map(attribute='name') | join(', '),
'`' ~ meant ~ '`' if meant else 'use one of these names; for an expression, select it as a column first; the sort order is always ascending') %}
      {%- endif -%}
      {%- if layout.bucket_hash != 'spark' and setting != 'partition_by' and column.name != column.name | lower -%}
        {%- do column.update({'expression': spark_bucketing.quote_identifier(column.name), 'name': column.name | lower}) -%}
      {%- endif -%}
      {%- do names.append(column.name) -%}
      {%- if setting == 'clustered_by' -%}
        {% do spark_bucketing.validate_bucket_type(column, layout.bucket_hash) %}
      {%- endif -%}
    {%- endfor -%}
    {%- do resolved.update({setting: names}) -%}
  {%- endfor -%}
  {% do spark_bucketing.validate_column_types(columns, resolved) %}
  {% do spark_bucketing.validate_docs(columns) %}
  {{ return(resolved) }}
{%- endmacro %}
