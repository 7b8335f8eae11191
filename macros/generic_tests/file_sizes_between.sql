{#-
  Returns files larger than `at_most`, and files smaller than `at_least`, except files that are the only file in their partition.

  Also returns files whose size is unknown, because they are in partitions outside the table's location.
-#}
{% test file_sizes_between(model, at_least=0, at_most=none) %}
  {%- if execute -%}
    {%- set sizes = {'at_least': spark_bucketing.parsed_size(at_least), 'at_most': spark_bucketing.parsed_size(at_most)} -%}
    {%- for argument, value in [('at_least', at_least), ('at_most', at_most)] if value is not none and sizes[argument] is none -%}
      {% do spark_bucketing.raise_argument_error('file_sizes_between', argument, value, 'a number of bytes, or a size in KiB, MiB, GiB or TiB', argument ~ ': 256MiB') %}
    {%- endfor -%}
    {%- if at_most is none and not sizes.at_least or at_most is not none and sizes.at_most <= sizes.at_least -%}
      {% do spark_bucketing.raise_argument_error('file_sizes_between', 'at_most', at_most, 'a size larger than `at_least`, or only `at_least`', 'at_least: 64MiB, at_most: 512MiB') %}
    {%- endif -%}
    {%- call(tested) spark_bucketing.files_test_sql(model, bucketed=false) -%}
      select path, bytes
      from (
        select path, bytes, count(*) over (partition by {{ spark_bucketing.directory_of_file('path') }}) as files
        from ({{ spark_bucketing.table_files_sql(model, tested.layout) }})
      )
      where bytes is null or bytes < {{ sizes.at_least }} and files > 1{{ ' or bytes > ' ~ sizes.at_most if at_most is not none }}
      order by bytes, path
      limit 1000
    {%- endcall -%}
  {%- endif -%}
{% endtest %}
