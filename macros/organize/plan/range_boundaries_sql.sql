{#-
  Returns table_layout() of the table in `range_boundaries_from`, with its `relation`.

  Raises an error unless both tables have the same partition and implicit partition columns. The range columns may have different names.
-#}
{% macro range_boundaries_table(layout) -%}
  {%- set relation = ref(*layout.range_boundaries_from.names) if layout.range_boundaries_from.of == 'ref' else source(*layout.range_boundaries_from.names) -%}
  {%- set known = spark_bucketing.existing_names(relation, [relation.identifier]) -%}
  {%- set other = spark_bucketing.table_layout(relation) if relation.identifier | lower in known else {'range_by': []} -%}
  {%- if not other.range_by -%}
    {% do spark_bucketing.raise_config_error('range_boundaries_from', relation, 'an existing table of a model with `range_by`',
        'build that model first, or remove `range_boundaries_from`') %}
  {%- endif -%}
  {%- for setting in ['partition_by', 'implicit_partition_by'] if other[setting] | map('lower') | list != layout[setting] | map('lower') | list -%}
    {% do spark_bucketing.raise_config_error('range_boundaries_from', relation ~ ', whose ' ~ setting ~ ' is ' ~ (other[setting] | join(', ') or 'none'),
        'the `' ~ setting ~ '` of this model: ' ~ (layout[setting] | join(', ') or 'none'), setting ~ '=' ~ other[setting]) %}
  {%- endfor -%}
  {{ return(dict(other, relation=relation)) }}
{%- endmacro %}


{#-
  Returns SQL for the range boundaries of another organized table. The result has the columns p0, p1, ... and `boundaries`, as in a plan table. Without
  the session extension, Spark opens every file of the table.

  other: dict, from range_boundaries_table()
-#}
{% macro range_boundaries_sql(other, has_extension) -%}
  {%- set columns = spark_bucketing.partition_aliases(other) -%}
  {%- set table = spark_bucketing.quote_relation(other.relation) -%}
  select {{ columns | join(', ') ~ ', ' if columns }}array_sort(collect_set(lower)) as boundaries
  from (
    select
      {%- for name in spark_bucketing.file_partition_columns(other) %}
      {{ 'partition' if loop.index0 < other.partition_by | length else 'implicit_partition' }}.{{ spark_bucketing.quote_identifier(name) }} as p{{ loop.index0 }},
      {%- endfor %}
      lower.{{ spark_bucketing.quote_columns(other.range_by) }} as lower
    {%- if has_extension %}
    from file_statistics({{ spark_bucketing.string_literal(table) }}) as stats
    {%- else %}
    from parquet.{{ spark_bucketing.quote_identifier(other.location ~ '/_file_statistics/*') }} as stats
    left semi join (
      select {{ spark_bucketing.last_names_of_file(other) }} as file, _metadata.file_size as bytes, _metadata.file_modification_time as modified
      from {{ table }}
    ) as current_files
      on stats.file = current_files.file and stats.bytes = current_files.bytes and stats.modified = current_files.modified
    {%- endif %}
  )
  where lower is not null
  {{ 'group by ' ~ columns | join(', ') if columns else 'having count(*) > 0' }}
{%- endmacro %}
