{#- Query for the files that the rows come from. Reads row counts, no columns. -#}
{% macro files_with_rows_sql(rows, where='true') -%}
  select distinct input_file_name() as path from {{ rows }} where {{ where }}
{%- endmacro %}
