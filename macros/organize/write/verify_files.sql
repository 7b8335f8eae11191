{#-
  Warns if the strategy `exact` did not write the planned number of files. The rows are correct in any case. The macro lists the table's directory
  without opening any files.
-#}
{% macro verify_files(relation, plan, layout) -%}
  {%- if layout.file_strategy != 'exact' or not plan.rows -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set found = run_query('select count(*) from ' ~ spark_bucketing.files_source(spark_bucketing.table_location(relation, layout))).rows[0][0] | int -%}
  {%- if found != plan.files -%}
    {% do exceptions.warn("Model `" ~ model.name ~ "`: Spark wrote " ~ '{:,}'.format(found) ~ ' files instead of the planned ' ~ '{:,}'.format(plan.files) ~ '.') %}
  {%- endif -%}
{%- endmacro %}
