{#-
  Raises an error if settings of the session prevent Spark from writing the package's tables. Checks only settings that are set explicitly.

  keeps_rows: bool, whether the run rewrites rows of the existing table. If so, rows that Spark skips without an error would be lost.
-#}
{% macro validate_session(keeps_rows=false) -%}
  {%- set needed = {
      'spark.sql.runsqlonfiles': 'true',
      'spark.sql.optimizer.disablehints': 'false',
      'spark.sql.hive.convertmetastoreparquet': 'true',
      'spark.sql.hive.convertmetastoreorc': 'true',
      'spark.sql.hive.convertinsertingpartitionedtable': 'true',
      'spark.sql.hive.convertinsertingunpartitionedtable': 'true',
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
  {%- set settings = spark_bucketing.session_settings() -%}
  {%- for key, row in settings.items() if key in needed and row[1] | string | lower != needed[key] -%}
    {% do spark_bucketing.raise_session_error(row[0] ~ ' = ' ~ row[1], needed[row[0] | lower],
        'remove the setting from the profile (server_side_parameters), the hook or the cluster that sets it') %}
  {%- endfor -%}
  {%- if spark_bucketing.spark_version() < [3, 5] -%}
    {% do spark_bucketing.raise_session_error('Spark ' ~ spark_bucketing.spark_version() | join('.'), 'Spark 3.5 or newer', 'run the model on a newer Spark version') %}
  {%- endif -%}
  {% do spark_bucketing.detect_scripts(settings) %}
  {#- Every run needs this result later. The macro is called here so that its warnings appear before the run writes anything. -#}
  {% do spark_bucketing.extension_enabled() %}
{%- endmacro %}


{% macro raise_session_error(found, expected, instead) -%}
  {% do exceptions.raise_compiler_error(spark_bucketing.error_message('Model `' ~ model.name ~ '` cannot be built in this session.', found, expected, instead)) %}
{%- endmacro %}
