{#-
  Returns the given relations, which do not exist, whose default location still has a directory. A process that was killed while it created,
  dropped or renamed a table leaves such a directory. A single listing with a glob pattern covers the common case that there is none.
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
