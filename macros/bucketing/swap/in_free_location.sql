{#-
  Deletes a directory that lies in the default place of a table without a table, as a process leaves it that crashed within DROP
  TABLE, and returns the statement that needs the place. Only for intermediate_relations that hold copies: never for the backup, whose directory may be
  that of a table whose rename was cut off.
-#}
{% macro in_free_location(relation, statement) -%}
  {%- if relation.identifier | lower in spark_bucketing.existing_locations() -%}
    {%- for delete in spark_bucketing.delete_directory(spark_bucketing.default_location(relation)) -%}
      {% do spark_bucketing.execute_sql(delete) %}
    {%- endfor -%}
    {%- do context['__spark_bucketing_taken'].remove(relation.identifier | lower) -%}
  {%- endif -%}
  {{ return(statement) }}
{%- endmacro %}
