{#-
  Returns the number of rows per file, from `rows_per_file` or `target_file_size`. Returns none if the config sets the number of files.

  For a target file size, the result is that size divided by the size of a row on disk. If this package built the existing table with the same format
  and compression, the row size comes from the footers of that table's files. Otherwise, the macro writes a sample of about a million rows with the
  model's format and options, and measures it. The size of rows in memory does not predict their size on disk. The sample consists of blocks of
  contiguous rows from the whole input, because the compression of a row depends on its neighbors.
-#}
{% macro rows_per_file(input, columns, layout, relation, existing) -%}
  {%- if layout.file_count.setting == 'rows_per_file' -%}
    {{ return(layout.file_count.value) }}
  {%- elif layout.file_count.setting != 'target_file_size' -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set sums = 'select coalesce(sum(rows), 0), coalesce(sum(bytes), 0)
      from (select count(*) as rows, max(_metadata.file_size) as bytes from %s group by _metadata.file_path)' -%}
  {%- set measured = [0, 0] -%}
  {%- set measured_on = 'the existing table' -%}
  {#- A full refresh does not read the existing table, which may be damaged. -#}
  {%- if existing and existing.type == 'table' and not should_full_refresh() and existing.build and existing.written_as == spark_bucketing.written_as(layout) -%}
    {%- set query = sums | format(spark_bucketing.quote_relation(relation)) -%}
    {% do spark_bucketing.execute_sql('refresh table ' ~ spark_bucketing.quote_relation(relation)) %}
    {%- if not spark_bucketing.planning_error(query) -%}
      {%- set measured = run_query(query).rows[0] | map('int') | list -%}
    {%- endif -%}
  {%- endif -%}
  {%- if not measured[0] -%}
    {%- set measured_on = 'a sample' -%}
    {%- set sample = spark_bucketing.intermediate_relation(relation, 'plan') -%}
    {%- set names = columns | map(attribute='name') | reject('in', layout.partition_by) | list -%}
    {%- set total = run_query('select count(*) from ' ~ spark_bucketing.quote_relation(input)).rows[0][0] | int -%}
    {%- set create -%}
      create table {{ spark_bucketing.quote_relation(sample) }} using {{ layout.file_format }}
      options {{ spark_bucketing.property_list(dict(layout.options, maxRecordsPerFile='0')) }}
      as select /*+ coalesce(1) */ {{ spark_bucketing.quote_columns(names) }}
      from (select *, _metadata.row_index as `__spark_bucketing_row` from {{ spark_bucketing.quote_relation(input) }})
      where `__spark_bucketing_row` div 10000 % {{ [total // 1000000, 1] | max }} = 0
    {%- endset -%}
    {% do spark_bucketing.drop_relation_with_files(sample) %}
    {% do spark_bucketing.execute_sql(create) %}
    {%- set measured = run_query(sums | format(spark_bucketing.quote_relation(sample))).rows[0] | map('int') | list -%}
    {% do spark_bucketing.drop_tables([sample]) %}
  {%- endif -%}
  {%- set rows, bytes = measured -%}
  {%- if not rows -%}
    {#- The input is empty. -#}
    {{ return(1) }}
  {%- endif -%}
  {%- set result = [layout.file_count.value * rows // bytes, 1] | max -%}
  {% do log(relation ~ ': ' ~ '{:,}'.format(result) ~ ' rows per file at ' ~ '{:.4g}'.format(bytes / rows) ~ ' bytes per row, measured on ' ~ measured_on
      ~ ' (' ~ '{:,}'.format(bytes) ~ ' bytes, ' ~ '{:,}'.format(rows) ~ ' rows).', info=true) %}
  {{ return(result) }}
{%- endmacro %}


{#-
  Returns a hash of the format, the codec and the options. Besides a row's values, these determine its size on disk. The table stores this hash for
  the next build.
-#}
{% macro written_as(layout) -%}
  {%- set codec = spark_bucketing.session_settings().get('spark.sql.' ~ layout.file_format ~ '.compression.codec') -%}
  {%- set parts = [layout.file_format, codec[1] if codec else ''] -%}
  {%- for key, value in layout.options.items() | sort -%}
    {%- do parts.append(key ~ '=' ~ value) -%}
  {%- endfor -%}
  {{ return(local_md5(parts | join(' '))) }}
{%- endmacro %}
