{#-
  Drops a table or view if it exists. For an external table, it also deletes the directory if its name is the id of a build of this
  package. Other directories stay.

  existing: dict, table_layout() of the relation if it is already known
-#}
{% macro drop_relation_with_files(relation, existing=none) -%}
  {%- if not existing and context.get('__spark_bucketing_made', {}).get(spark_bucketing.quote_relation(relation)) -%}
    {#- This run created it as a managed table. -#}
    {%- set existing = {'type': 'table', 'external': false} -%}
  {%- endif -%}
  {%- if existing or (spark_bucketing.known_relation(relation) is not false
      and relation.identifier | lower in spark_bucketing.existing_names(relation, [relation.identifier])) -%}
    {%- set existing = existing or spark_bucketing.table_layout(relation) -%}
    {%- set drop = 'drop ' ~ existing.type ~ ' if exists ' ~ spark_bucketing.quote_relation(relation) -%}
    {%- if not existing.external -%}
      {% do spark_bucketing.execute_sql(drop) %}
    {%- elif existing.build and existing.location.rstrip('/').endswith('/' ~ existing.build) -%}
      {% do spark_bucketing.execute_sql('drop table if exists ' ~ spark_bucketing.quote_relation(spark_bucketing.intermediate_relation(this, 'trash'))) %}
      {%- for statement in spark_bucketing.delete_directories([existing.location], and_first=[drop]) -%}
        {% do spark_bucketing.execute_sql(statement) %}
      {%- endfor -%}
    {%- else -%}
      {% do spark_bucketing.execute_sql(drop) %}
      {% do log('The files of ' ~ relation ~ ' in ' ~ existing.location ~ ' stay, because this package did not write them.', info=true) %}
    {%- endif -%}
    {% do spark_bucketing.forget_made(relation) %}
  {%- endif -%}
{%- endmacro %}
