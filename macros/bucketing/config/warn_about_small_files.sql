{#-
  Warns, before the run writes anything, if buckets are so small that opening their files costs more than bucketing saves. The size of a bucket is
  Spark's estimate, which tends to be too large.

  sources: list of SQL queries in parentheses. Several sources are the batches of a microbatch model, for which the macro does not warn.
-#}
{% macro warn_about_small_files(sources, layout) -%}
  {%- if (layout.buckets or 0) >= 200 and sources | length == 1 -%}
    {%- set plan = run_query('explain cost select * from ' ~ sources[0]).rows[0][0] -%}
    {%- set size = modules.re.search('sizeInBytes=([0-9.]+) ([KMGTPE]?)i?B', plan) -%}
    {%- set bytes = (size.group(1) | float * 1024 ** ' KMGTPE'.index(size.group(2) or ' ')) | int if size else none -%}
    {%- if bytes is not none and bytes < layout.buckets * 131072 -%}
      {%- set suggested = [bytes // 134217728, 1] | max -%}
      {% do exceptions.warn("Model `" ~ model.name ~ "`: buckets=" ~ layout.buckets ~ ' writes very small files: Spark estimates '
          ~ '{:,}'.format(bytes) ~ ' bytes for the result of the query. Each file needs its own write task, and readers must open each file. Try buckets=' ~ suggested ~ '.') %}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}
