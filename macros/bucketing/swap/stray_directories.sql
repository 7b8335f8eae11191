{#-
  Those of these relations, none of which exists, in whose default place a directory lies: a process has left it that was killed while a
  table was created, dropped or renamed. One look at all of them tells that there is none, as there is after any other run.
-#}
{% macro stray_directories(relations) -%}
  {%- set strays = [] -%}
  {%- set names = relations | map(attribute='identifier') | map('lower') | join(',') -%}
  {%- if spark_bucketing.directory_exists(spark_bucketing.schema_location(relations[0].schema) ~ '{' ~ names ~ '}') -%}
    {%- for relation in relations if spark_bucketing.directory_exists(spark_bucketing.default_location(relation)) -%}
      {%- do strays.append(relation) -%}
    {%- endfor -%}
  {%- endif -%}
  {{ return(strays) }}
{%- endmacro %}
