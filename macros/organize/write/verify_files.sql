{#-
  Warns of another number of files than was planned: by `exact`, which promises just that many. The rows are right in any case. One look at
  the table's directory, which opens no file.
-#}
{% macro verify_files(relation, plan, layout) -%}
  {%- if layout.file_strategy != 'exact' or not plan.rows -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set found = run_query('select count(*) from ' ~ spark_bucketing.files_source(spark_bucketing.table_location(relation, layout))).rows[0][0] | int -%}
  {%- if found != plan.files -%}
    {% do exceptions.warn("Model '" ~ model.name ~ "': " ~ '{:,}'.format(plan.files) ~ ' files were planned, and ' ~ '{:,}'.format(found) ~ ' have been written.') %}
  {%- endif -%}
{%- endmacro %}
