{#- Returns the version of this package. Macros cannot read dbt_project.yml, so a test checks that both files state the same version. -#}
{% macro package_version() -%}
  {{- return('0.1.0') -}}
{%- endmacro %}


{#-
  Warns once per run if the session extension and this package have different versions.

  description: list of strings, the lines that DESCRIBE FUNCTION prints for a function of the extension; they contain its version
-#}
{% macro warn_about_version_mismatch(description) -%}
  {%- set found = modules.re.search('spark-bucketing ([^ ,]+), for Spark', description | join('\n')) -%}
  {%- set warning = {} -%}
  {#- Several threads may reach this line at the same time. Because of setdefault(), only one of them logs the warning. -#}
  {%- if found and found.group(1) != spark_bucketing.package_version()
      and spark_bucketing.run_cache().setdefault('warning_of_version', warning) is sameas warning -%}
    {% do exceptions.warn('The session extension has version ' ~ found.group(1) ~ ', but the dbt package spark_bucketing has version '
        ~ spark_bucketing.package_version() ~ '. Use the same release of both. For the package, set `revision` in packages.yml and run `dbt deps`.'
        ~ ' For the extension, run `spark-bucketing extension build` and restart Spark.') %}
  {%- endif -%}
{%- endmacro %}
