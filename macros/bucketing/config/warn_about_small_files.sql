{#-
  Warns, before anything is written, when many buckets get so few bytes that their files cost more than they save. Spark's own estimate, which
  is rather too large, is asked for only where there are many buckets.

  sources: queries in parentheses; of a batch it says nothing
-#}
{% macro warn_about_small_files(sources, layout) -%}
  {%- if layout.buckets >= 200 and sources | length == 1 -%}
    {%- set plan = run_query('explain cost select * from ' ~ sources[0]).rows[0][0] -%}
    {%- set size = modules.re.search('sizeInBytes=([0-9.]+) ([KMGTPE]?)i?B', plan) -%}
    {%- set bytes = (size.group(1) | float * 1024 ** ' KMGTPE'.index(size.group(2) or ' ')) | int if size else none -%}
    {%- if bytes is not none and bytes < layout.buckets * 131072 -%}
      {%- set fitting = [bytes // 134217728, 1] | max -%}
      {% do exceptions.warn("Model '" ~ model.name ~ "': buckets=" ~ layout.buckets ~ ' for a query of an estimated ' ~ '{:,}'.format(bytes)
          ~ ' bytes makes tiny files. Each is written by a task and opened by every reader: try buckets=' ~ fitting ~ '.') %}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}
