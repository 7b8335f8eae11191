{#- Query for the names of the files below a directory, as `path`. Opens none of them. -#}
{% macro files_below_sql(location, since=0) -%}
  select input_file_name() as path from binaryFile.{{ spark_bucketing.quote_identifier(location) }} with ('recursiveFileLookup' = 'true')
  where modificationTime >= timestamp_micros({{ since }})
{%- endmacro %}
