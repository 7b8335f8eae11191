{#-
  SQL for a directory in a form that can be compared: a path without scheme and host, which the metastore may leave out.

  location: as the metastore has it: file:/warehouse/t/ds=a%20b
-#}
{% macro directory_of_location(location) -%}
  {{ return("trim(trailing '/' from regexp_replace(" ~ location ~ ", '^[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?', ''))") }}
{%- endmacro %}


{#- The same for the directory of a file, spelled as input_file_name() does: file:///warehouse/t/ds=a%2520b/part-0 -#}
{% macro directory_of_file(path) -%}
  {%- set directory = 'regexp_extract(' ~ path ~ ", '^(.*)/[^/]*$', 1)" -%}
  {#- url_decode() is for forms, where a plus is a space. -#}
  {{ return(spark_bucketing.directory_of_location('url_decode(replace(' ~ directory ~ ", '+', '%2B'))")) }}
{%- endmacro %}
