{#- Returns a query for the files below a directory, as `path`. Opens none of the files. -#}
{% macro directory_files_sql(location) -%}
  select input_file_name() as path from {{ spark_bucketing.files_source(location) }}
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
