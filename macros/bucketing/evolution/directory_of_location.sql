{#-
  Returns SQL for the normalized path of a directory. The path has no scheme and no host, because the metastore may omit them.

  location: string, SQL for a location in the notation of the metastore, such as file:/warehouse/t/ds=a%20b
-#}
{% macro directory_of_location(location) -%}
  {{ return("trim(trailing '/' from regexp_replace(" ~ location ~ ", '^[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?', ''))") }}
{%- endmacro %}


{#- Returns SQL for the normalized directory of a file, given in the notation of input_file_name(), such as file:///warehouse/t/ds=a%2520b/part-0 -#}
{% macro directory_of_file(path) -%}
  {%- set directory = 'regexp_extract(' ~ path ~ ", '^(.*)/[^/]*$', 1)" -%}
  {#- url_decode() decodes a plus sign as a space, which is wrong for paths. -#}
  {{ return(spark_bucketing.directory_of_location('url_decode(replace(' ~ directory ~ ", '+', '%2B'))")) }}
{%- endmacro %}
