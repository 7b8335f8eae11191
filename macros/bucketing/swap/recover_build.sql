{#-
  Completes the publication of a build, or deletes a build whose publication has not begun. Without the session extension, the build stays until
  a run with it: no partition points to the build, or its publication is complete.

  existing: dict, table_layout() of the table, or none
-#}
{% macro recover_build(relation, existing, build) -%}
  {%- if not existing or existing.type != 'table' -%}
    {% do spark_bucketing.drop_tables([build]) %}
  {%- elif spark_bucketing.extension_enabled() -%}
    {% do log('Recovering ' ~ build ~ ', which another run of this model left behind or still uses. If that run is still active, it will fail. '
        ~ 'Run a model only once at a time.', info=true) %}
    {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' recover build from ' ~ spark_bucketing.quote_relation(build)) %}
  {%- else -%}
    {% do log('A run with the session extension left ' ~ build ~ '. The next run with the extension will drop it.', info=true) %}
  {%- endif -%}
{%- endmacro %}
