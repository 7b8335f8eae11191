{#-
  Returns SQL for the normalized path of a directory, without scheme and host, which the metastore may omit.

  location: string, SQL for a location in the notation of the metastore: file:/warehouse/t/ds=a%20b
-#}
{% macro directory_of_location(location) -%}
  {{ return("trim(trailing '/' from regexp_replace(" ~ location ~ ", '^[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?', ''))") }}
{%- endmacro %}


{#- Returns SQL for the normalized directory of a file, in the notation of input_file_name(): file:///warehouse/t/ds=a%2520b/part-0 -#}
{% macro directory_of_file(path) -%}
  {%- set directory = 'regexp_extract(' ~ path ~ ", '^(.*)/[^/]*$', 1)" -%}
  {#- url_decode() decodes a plus sign as a space, which is wrong for paths. -#}
  {{ return(spark_bucketing.directory_of_location('url_decode(replace(' ~ directory ~ ", '+', '%2B'))")) }}
{%- endmacro %}
