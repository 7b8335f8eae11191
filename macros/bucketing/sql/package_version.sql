{#- The version of this package. dbt keeps that of dbt_project.yml from macros; a test holds the two together. -#}
{% macro package_version() -%}
  {{- return('0.1.0') -}}
{%- endmacro %}


{#-
  Warns, once in a run, of a session extension of another version than this package. What describes its function says the version, so
  that nothing more is asked.

  description: lines of DESCRIBE FUNCTION of one of its functions
-#}
{% macro warn_about_version_mismatch(description) -%}
  {%- set found = modules.re.search('spark-bucketing ([^ ,]+), for Spark', description | join('\n')) -%}
  {%- set warning = {} -%}
  {#- Models of several threads may ask at once: one of them is the first. -#}
  {%- if found and found.group(1) != spark_bucketing.package_version()
      and spark_bucketing.run_cache().setdefault('warning_of_version', warning) is sameas warning -%}
    {% do exceptions.warn('The session extension that Spark has loaded is of spark-bucketing ' ~ found.group(1) ~ ', and the dbt package is of '
        ~ spark_bucketing.package_version() ~ '. Take both from one release: `revision` in packages.yml, then `dbt deps`; the jar by `spark-bucketing'
        ~ ' extension build`, then start Spark again.') %}
  {%- endif -%}
{%- endmacro %}
