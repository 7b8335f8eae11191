{#-
  SQL script that runs a statement which needs the default directory of a table, and deletes a directory that lies there
  without a table, as a process leaves it that died within DROP TABLE. Only for siblings: their names are this package's own.

  unless_gone: statement to run instead when the files of what is to be renamed do not exist any more
-#}
{% macro in_free_location(relation, statement, unless_gone=none) -%}
  {%- set rows = run_query('describe schema ' ~ spark_bucketing.quote_identifier(relation.schema)).rows -%}
  {%- set schema_location = (rows | selectattr(0, 'equalto', 'Location') | first)[1] -%}
  begin
    declare exit handler for LOCATION_ALREADY_EXISTS
    begin
      {{ spark_bucketing.delete_directory(schema_location.rstrip('/') ~ '/' ~ relation.identifier | lower) | join(';\n      ') }};
      {{ statement }};
    end;
    {%- if unless_gone %}
    declare exit handler for PATH_NOT_FOUND
    begin
      {{ unless_gone }};
    end;
    {%- endif %}
    {{ statement }};
  end
{%- endmacro %}
