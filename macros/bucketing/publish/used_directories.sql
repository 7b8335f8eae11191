{#-
  Returns the directories that partitions of a table have rows in, relative to the table's location: build-.../ds=1 in a build, ds=1 for a default
  directory. Skips directories with other names, which are never deleted.

  partitions: list of lists, from partitions_of()
-#}
{% macro used_directories(relation, partitions, layout) -%}
  {%- set used = [] -%}
  {%- if partitions -%}
    {%- set quoted = spark_bucketing.quote_relation(relation) -%}
    {%- set columns = spark_bucketing.columns_named(spark_bucketing.table_columns(quoted), layout.partition_by) -%}
    {%- set files = 'select input_file_name() as path from ' ~ quoted ~ ' where ' ~ spark_bucketing.partition_predicate(columns, partitions) -%}
    {%- for directory in spark_bucketing.relative_directories(files, spark_bucketing.table_layout(relation).location) -%}
      {%- set name = modules.re.sub(spark_bucketing.build_pattern(), '', directory) -%}
      {%- if modules.re.fullmatch('[^/=]+=[^/]*' ~ '/[^/=]+=[^/]*' * (layout.partition_by | length - 1), name) and spark_bucketing.values_of_partition(name) in partitions -%}
        {%- do used.append(directory) -%}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
  {{ return(used) }}
{%- endmacro %}


{#-
  Returns the directories of files below a location, relative to it.

  files: string, SQL query for `path`
-#}
{% macro relative_directories(files, location) -%}
  {%- set root = spark_bucketing.directory_of_location(spark_bucketing.string_literal(location)) ~ " || '/'" -%}
  {%- set found = [] -%}
  {%- for row in run_query('select substring(directory, length(' ~ root ~ ') + 1) from (select distinct ' ~ spark_bucketing.directory_of_file('path')
      ~ ' as directory from (' ~ files ~ ')) where startswith(directory, ' ~ root ~ ')').rows -%}
    {%- do found.append(row[0]) -%}
  {%- endfor -%}
  {{ return(found) }}
{%- endmacro %}


{#- Returns a pattern for the build directory at the start of a relative directory. -#}
{% macro build_pattern() -%}
  {{ return('^build-[0-9]{20}/') }}
{%- endmacro %}
