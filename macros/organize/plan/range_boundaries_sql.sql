{#-
  Returns SQL for the range boundaries of another organized table. The result has the columns p0, p1, ... and `boundaries`, as in a plan table.

  Both tables must have the same partition and implicit partition columns. The range columns may have different names.
-#}
{% macro range_boundaries_sql(layout) -%}
  {%- set relation = ref(*layout.range_boundaries_from.names) if layout.range_boundaries_from.of == 'ref' else source(*layout.range_boundaries_from.names) -%}
  {%- set known = spark_bucketing.existing_names(relation, [relation.identifier]) -%}
  {%- set other = spark_bucketing.table_layout(relation) if relation.identifier | lower in known else {'range_by': []} -%}
  {%- set groups = {'partition_by': other.partition_by, 'implicit_partition_by': other.implicit_partition_by} -%}
  {%- if not other.range_by -%}
    {% do spark_bucketing.raise_config_error('range_boundaries_from', relation, 'an existing table of a model with `range_by`',
        'build that model first, or remove `range_boundaries_from`') %}
  {%- endif -%}
  {%- for setting, names in groups.items() if names | map('lower') | list != layout[setting] | map('lower') | list -%}
    {% do spark_bucketing.raise_config_error('range_boundaries_from', relation ~ ', whose ' ~ setting ~ ' is ' ~ (names | join(', ') or 'none'),
        'the `' ~ setting ~ '` of this model: ' ~ (layout[setting] | join(', ') or 'none'), setting ~ '=' ~ names) %}
  {%- endfor -%}
  {%- set columns = spark_bucketing.partition_aliases(layout) -%}
  select {{ columns | join(', ') ~ ', ' if columns }}array_sort(collect_set(lower)) as boundaries
  from ({{ spark_bucketing.file_ranges_sql(relation, other) }})
  where lower is not null
  {{ 'group by ' ~ columns | join(', ') if columns else 'having count(*) > 0' }}
{%- endmacro %}


{#-
  Returns SQL for the ranges of a table's files, with the same columns as listed_files_sql(). Without the session extension, Spark opens every file.
-#}
{% macro file_ranges_sql(relation, layout) -%}
  {%- if spark_bucketing.extension_enabled() -%}
    {{ return('select * from (' ~ spark_bucketing.listed_files_sql(relation, layout) ~ ') where is_known') }}
  {%- endif -%}
  select
    {%- for name in spark_bucketing.file_partition_columns(layout) %}
    {{ 'partition' if loop.index0 < layout.partition_by | length else 'implicit_partition' }}.{{ spark_bucketing.quote_identifier(name) }} as p{{ loop.index0 }},
    {%- endfor %}
    lower.{{ spark_bucketing.quote_columns(layout.range_by) }} as lower
  from parquet.{{ spark_bucketing.quote_identifier(layout.location ~ '/_file_statistics/*') }} as stats
  left semi join (
    select {{ spark_bucketing.last_names_of_file(layout) }} as file, _metadata.file_size as bytes, _metadata.file_modification_time as modified
    from {{ spark_bucketing.quote_relation(relation) }}
  ) as current_files
    on stats.file = current_files.file and stats.bytes = current_files.bytes and stats.modified = current_files.modified
{%- endmacro %}
