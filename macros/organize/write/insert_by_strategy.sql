{#-
  Inserts rows into an organized table with a file strategy other than `exact`, in one task per planned file or, for some strategies, in other numbers of
  tasks. It stores the rows first, because it reads them to count them, and again to write them. Adaptive execution does not change an explicit number of
  tasks.

  The arguments are those of insert_rows().
-#}
{% macro insert_by_strategy(relation, source, columns, layout, overwrite=none) -%}
  {%- set input = spark_bucketing.load_input(relation, source, columns, layout) -%}
  {%- set rows = spark_bucketing.quote_relation(input) -%}
  {%- set partition = spark_bucketing.quote_columns(layout.partition_by) -%}
  {%- set of_partition -%}
    select {{ partition ~ ', ' if partition }}{{ spark_bucketing.files_of_partition(layout, spark_bucketing.rows_per_file(layout, input)) }} as `__spark_bucketing_files`
    from (
      select {{ partition ~ ', ' if partition }}count(*) as `__spark_bucketing_rows`, sum(count(*)) over () as `__spark_bucketing_all` from {{ rows }}
      {{- ' group by ' ~ partition if partition }}
    )
  {%- endset -%}
  {%- set files = run_query('select coalesce(sum(`__spark_bucketing_files`), 0) from (' ~ of_partition ~ ')').rows[0][0] | int -%}
  {%- set found = spark_bucketing.write_distribution(files, layout) -%}
  {% call statement('main') -%}
    {{ spark_bucketing.insert_clause(relation, layout, overwrite) }}
    select /*+ {{ found.hint }} */ {{ spark_bucketing.quote_columns(spark_bucketing.order_columns(columns, layout.partition_by) | map(attribute='name') | list) }}
    from (
      select input_rows.*{{ ', ' ~ found.key ~ ' as `__spark_bucketing_key`' if found.key }}
      from {{ rows }} as input_rows
      {%- if 'plan.' in found.key %}
      left join ({{ of_partition }}) as plan on true
        {%- for name in layout.partition_by %} and {{ spark_bucketing.quote_columns([name], 'input_rows.%s') }} <=> {{ spark_bucketing.quote_columns([name], 'plan.%s') }}{% endfor %}
      {%- endif %}
    )
  {%- endcall %}
  {% do spark_bucketing.drop_tables([input]) %}
{%- endmacro %}


{#- Returns whether a table has another file strategy than `exact`, which an INSERT of the session extension does not support. -#}
{% macro has_other_strategy(layout) -%}
  {{ return(layout.get('file_strategy', 'exact') != 'exact') }}
{%- endmacro %}


{#-
  Returns a dict {hint, key}, which defines how a strategy distributes rows. The hint refers to `key`, a SQL expression, as `__spark_bucketing_key`. A
  retried task computes the same keys. The key is empty if any task may write any row.
-#}
{% macro write_distribution(files, layout) -%}
  {%- set tasks = [(files * (layout.scale_factor if layout.file_strategy == 'by_column_salted' else 1)) | round(0, 'ceil') | int, 1] | max -%}
  {%- set maximum = spark_bucketing.config_schema()['keys'].num_files.maximum -%}
  {%- if tasks > maximum -%}
    {% do spark_bucketing.raise_config_error(layout.file_count.setting, layout.file_count.value ~ ', which results in ' ~ '{:,}'.format(files) ~ ' files'
        ~ (', and scale_factor=' ~ layout.scale_factor if layout.scale_factor != 1), 'at most ' ~ '{:,}'.format(maximum) ~ ' write tasks',
        'write larger files, or use a coarser `partition_by`') %}
  {%- endif -%}
  {%- set partition = spark_bucketing.quote_columns(layout.partition_by) -%}
  {{ return({
      'coalesce': {'hint': 'coalesce(' ~ tasks ~ ')', 'key': ''},
      'repartition': {'hint': 'repartition(' ~ tasks ~ ')', 'key': ''},
      'by_column': {'hint': 'repartition(' ~ tasks ~ ', ' ~ partition ~ ')', 'key': ''},
      'by_column_salted': {'hint': 'repartition(' ~ tasks ~ ', ' ~ (partition ~ ', ' if partition) ~ '`__spark_bucketing_key`)',
          'key': 'monotonically_increasing_id() % plan.`__spark_bucketing_files`'},
      'by_range': {'hint': 'repartition_by_range(' ~ tasks ~ ', `__spark_bucketing_key`)',
          'key': 'struct(' ~ ('hash(' ~ partition ~ ') as h, ' if partition) ~ 'monotonically_increasing_id() as n)'},
  }[layout.file_strategy]) }}
{%- endmacro %}


{#- Returns SQL for the number of files in a partition, from its rows and all rows of the table: at least one, and at most one per row. -#}
{% macro files_of_partition(layout, rows_per_file) -%}
  {%- set file_count = layout.file_count -%}
  {%- if rows_per_file -%}
    {%- set files = '(`__spark_bucketing_rows` + ' ~ (rows_per_file - 1) ~ ') div ' ~ rows_per_file -%}
  {%- elif file_count.setting == 'num_files' -%}
    {%- set files = 'cast(round(' ~ file_count.value ~ 'D * `__spark_bucketing_rows` / greatest(1, `__spark_bucketing_all`)) as bigint)' -%}
  {%- else -%}
    {%- set files = 'cast(' ~ file_count.value ~ ' as bigint)' -%}
  {%- endif -%}
  {{ return('least(`__spark_bucketing_rows`, greatest(1, ' ~ files ~ '))') }}
{%- endmacro %}


{#- Returns the number of rows per file, or none if the config sets the number of files. The input has the format and the options of the table. -#}
{% macro rows_per_file(layout, input) -%}
  {%- if layout.file_count.setting == 'rows_per_file' -%}
    {{ return(layout.file_count.value) }}
  {%- elif layout.file_count.setting == 'target_file_size' -%}
    {%- set found = run_query('select coalesce(sum(rows), 0), coalesce(sum(bytes), 0) from (select count(*) as rows, max(_metadata.file_size) as bytes from '
        ~ spark_bucketing.quote_relation(input) ~ ' group by _metadata.file_path)').rows[0] -%}
    {{ return([layout.file_count.value * (found[0] | int) // [found[1] | int, 1] | max, 1] | max) }}
  {%- endif -%}
{%- endmacro %}
