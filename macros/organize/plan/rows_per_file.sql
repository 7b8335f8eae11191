{#-
  Returns the number of rows per file, from `rows_per_file` or `target_file_size`. Returns none if the config sets the number of files.

  For a target file size, the result is that size divided by the size of a row on disk. If this package built the existing table with the same format
  and compression, the row size comes from that table. Otherwise, the macro writes a sample of the input, and measures it. The size of rows in memory
  does not predict their size on disk.
-#}
{% macro rows_per_file(input, columns, layout, relation, existing) -%}
  {%- if layout.file_count.setting == 'rows_per_file' -%}
    {{ return(layout.file_count.value) }}
  {%- elif layout.file_count.setting != 'target_file_size' -%}
    {{ return(none) }}
  {%- endif -%}
  {#- A full refresh does not read the existing table, which may be damaged. -#}
  {%- set comparable = existing and existing.type == 'table' and not should_full_refresh() and existing.build and existing.written_as == spark_bucketing.written_as(layout) -%}
  {%- set measured = {'rows': 0} -%}
  {%- if comparable -%}
    {%- set measured = spark_bucketing.measured(relation, refresh=true) -%}
  {%- endif -%}
  {%- set measured_on = 'the existing table' -%}
  {%- if not measured.rows -%}
    {%- set measured = spark_bucketing.measured_sample(input, columns, layout, spark_bucketing.intermediate_relation(relation, 'plan')) -%}
    {%- set measured_on = 'a sample' -%}
  {%- endif -%}
  {%- if not measured.rows -%}
    {#- The input is empty. -#}
    {{ return(1) }}
  {%- endif -%}
  {%- set rows = [layout.file_count.value * measured.rows // measured.bytes, 1] | max -%}
  {% do log(relation ~ ': ' ~ '{:,}'.format(rows) ~ ' rows per file at ' ~ '{:.4g}'.format(measured.bytes / measured.rows) ~ ' bytes per row, measured on ' ~ measured_on
      ~ ' (' ~ '{:,}'.format(measured.bytes) ~ ' bytes, ' ~ '{:,}'.format(measured.rows) ~ ' rows).', info=true) %}
  {{ return(rows) }}
{%- endmacro %}


{#- Returns the total {rows, bytes} of a table's files, or zeros if Spark cannot read the table. Reads only file footers. -#}
{% macro measured(relation, refresh=false) -%}
  {%- set query = spark_bucketing.measure_sql(spark_bucketing.quote_relation(relation)) -%}
  {%- if refresh -%}
    {% do spark_bucketing.execute_sql('refresh table ' ~ spark_bucketing.quote_relation(relation)) %}
    {%- if spark_bucketing.planning_error(query) -%}
      {{ return({'rows': 0, 'bytes': 0}) }}
    {%- endif -%}
  {%- endif -%}
  {%- set row = run_query(query).rows[0] -%}
  {{ return({'rows': row[0] | int, 'bytes': row[1] | int}) }}
{%- endmacro %}


{% macro measure_sql(table) -%}
  select coalesce(sum(rows), 0), coalesce(sum(bytes), 0)
  from (select count(*) as rows, max(_metadata.file_size) as bytes from {{ table }} group by _metadata.file_path)
{%- endmacro %}


{#-
  Returns {rows, bytes} of a sample of about a million rows, which the macro writes with the model's format and options.

  The sample consists of blocks of contiguous rows from the whole input, because the compression of a row depends on its neighbors.
-#}
{% macro measured_sample(input, columns, layout, sample) -%}
  {%- set names = columns | map(attribute='name') | reject('in', layout.partition_by) | list -%}
  {%- set total = run_query('select count(*) from ' ~ spark_bucketing.quote_relation(input)).rows[0][0] | int -%}
  {% do spark_bucketing.drop_relation_with_files(sample) %}
  {%- set create -%}
    create table {{ spark_bucketing.quote_relation(sample) }} using {{ layout.file_format }}
    options {{ spark_bucketing.property_list(dict(layout.options, maxRecordsPerFile='0')) }}
    as select /*+ coalesce(1) */ {{ spark_bucketing.quote_columns(names) }}
    from (select *, _metadata.row_index as `__spark_bucketing_row` from {{ spark_bucketing.quote_relation(input) }})
    where `__spark_bucketing_row` div 10000 % {{ [total // 1000000, 1] | max }} = 0
  {%- endset -%}
  {% do spark_bucketing.execute_sql(create) %}
  {%- set found = spark_bucketing.measured(sample) -%}
  {% do spark_bucketing.drop_tables([sample]) %}
  {{ return(found) }}
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
