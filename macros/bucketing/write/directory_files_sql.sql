{#-
  Returns a query that recursively lists the files below a directory, with the columns `path` and `bytes`. The query opens no files.

  Before Spark 4.0, a query cannot have options. Therefore, the macro creates a temporary view with the options, which lists the files when it is
  created.
-#}
{% macro directory_files_sql(location, since=0) -%}
  {%- set files = 'binaryFile.' ~ spark_bucketing.quote_identifier(location) ~ " with ('recursiveFileLookup' = 'true')" -%}
  {%- if execute and not spark_bucketing.has_query_options() -%}
    {#- Several models in a run may share a session, so the name of the view must be unique. -#}
    {%- set files = 'spark_bucketing_files_' ~ local_md5(model.unique_id) -%}
    {% do spark_bucketing.execute_sql('create or replace temporary view ' ~ files ~ ' using binaryFile options '
        ~ spark_bucketing.property_list({'path': location, 'recursiveFileLookup': true}), defines=files) %}
  {%- endif -%}
  select input_file_name() as path, length as bytes from {{ files }}
  where modificationTime >= timestamp_micros({{ since }})
{%- endmacro %}
