{#-
  Creates an external table in a new build directory of a partitioned table. Readers of the table do not see its rows.

  columns: list of {name, type} that the table has after the run
  layout: dict, from resolve_layout()
  existing: dict, table_layout() of the table
  partitions: list of lists, partitions to create, even if they get no rows
-#}
{% macro start_build(build, columns, layout, existing, partitions=[]) -%}
  {% do spark_bucketing.execute_sql(spark_bucketing.bucketed_table_ddl(build, columns, layout, existing.location)) %}
  {%- if partitions -%}
    {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(build) ~ ' add '
        ~ spark_bucketing.partition_specs(layout.partition_by, partitions) | join(' ')) %}
  {%- endif -%}
{%- endmacro %}


{#-
  Records what the table contains in each partition of a build, before the build reads it. PUBLISH BUILD then refuses to replace rows that the
  build has not read. Stock Spark has no statement for this.

  Returns the number of these partitions that exist.
-#}
{% macro record_state(relation, build) -%}
  {%- if spark_bucketing.extension_enabled() -%}
    {{ return(run_query('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' start build in ' ~ spark_bucketing.quote_relation(build)).rows[0][0] | int) }}
  {%- endif -%}
  {{ return(spark_bucketing.partitions_of(relation) | select('in', spark_bucketing.partitions_of(build)) | list | length) }}
{%- endmacro %}


{#- Returns the partitions of a table from the metastore, as lists of strings, with none for NULL. -#}
{% macro partitions_of(relation) -%}
  {%- set partitions = [] -%}
  {%- for row in run_query('show partitions ' ~ spark_bucketing.quote_relation(relation)).rows -%}
    {%- do partitions.append(spark_bucketing.values_of_partition(row[0])) -%}
  {%- endfor -%}
  {{ return(partitions) }}
{%- endmacro %}
