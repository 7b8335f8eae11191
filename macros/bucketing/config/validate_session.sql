{#-
  Settings of the session under which Spark cannot write these tables. Only what somebody has set is looked at.

  keeps_rows: whether rows of the table are read to be written again: what Spark leaves out without an error would be lost
-#}
{% macro validate_session(keeps_rows=false) -%}
  {%- set needed = {
      'spark.sql.scripting.enabled': 'true',
      'spark.sql.runsqlonfiles': 'true',
      'spark.sql.optimizer.disablehints': 'false',
      'spark.sql.hive.convertmetastoreparquet': 'true',
      'spark.sql.hive.convertmetastoreorc': 'true',
      'spark.sql.hive.convertinsertingpartitionedtable': 'true',
      'spark.sql.parser.escapedstringliterals': 'false',
  } -%}
  {%- if keeps_rows -%}
    {%- do needed.update({
        'spark.sql.files.ignorecorruptfiles': 'false',
        'spark.sql.files.ignoremissingfiles': 'false',
        'spark.sql.legacy.parsenullpartitionspecasstringliteral': 'false',
        'spark.sql.hive.managefilesourcepartitions': 'true',
    }) -%}
  {%- endif -%}
  {%- for key, row in spark_bucketing.session_settings().items() if key in needed and row[1] | string | lower != needed[key] -%}
    {% do exceptions.raise_compiler_error("Model '" ~ model.name ~ "' cannot be written in this session.\n  found:    " ~ row[0] ~ ' = ' ~ row[1]
        ~ '\n  expected: ' ~ needed[row[0] | lower] ~ '\n  instead:  take the setting out of the profile (server_side_parameters), a hook or the cluster') %}
  {%- endfor -%}
{%- endmacro %}
