{#- Returns a query that lists the files below a directory, with the column `path`. The query opens no files. -#}
{% macro directory_files_sql(location, since=0) -%}
  select input_file_name() as path from {{ spark_bucketing.files_source(location) }}
  where modificationTime >= timestamp_micros({{ since }})
{%- endmacro %}


{#-
  Returns SQL for a relation that recursively lists the files below a directory. Before Spark 4.0, a query cannot have options. Therefore, the macro
  creates a temporary view with the options, which lists the files when it is created.
-#}
{% macro files_source(location) -%}
  {%- if not execute or spark_bucketing.has_query_options() -%}
    {{ return('binaryFile.' ~ spark_bucketing.quote_identifier(location) ~ " with ('recursiveFileLookup' = 'true')") }}
  {%- endif -%}
  {#- Several models in a run may share a session, so the name of the view must be unique. -#}
  {%- set view = 'spark_bucketing_files_' ~ local_md5(model.unique_id) -%}
  {% do spark_bucketing.execute_sql('create or replace temporary view ' ~ view ~ ' using binaryFile options '
      ~ spark_bucketing.property_list({'path': location, 'recursiveFileLookup': true}), defines=view) %}
  {{ return(view) }}
{%- endmacro %}
