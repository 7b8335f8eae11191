{#-
  SQL script that runs a statement which needs the default directory of a table, and deletes a directory that lies there
  without a table, as a process leaves it that died within DROP TABLE. Only for siblings that hold copies: never for the
  backup, whose directory may be that of a table whose rename was cut off.
-#}
{% macro in_free_location(relation, statement) -%}
  {%- set rows = run_query('describe schema ' ~ spark_bucketing.quote_identifier(relation.schema)).rows -%}
  {%- set schema_location = (rows | selectattr(0, 'equalto', 'Location') | first)[1] -%}
  begin
    declare exit handler for LOCATION_ALREADY_EXISTS
    begin
      {{ spark_bucketing.delete_directory(schema_location.rstrip('/') ~ '/' ~ relation.identifier | lower) | join(';\n      ') }};
      {{ statement }};
    end;
    {{ statement }};
  end
{%- endmacro %}
