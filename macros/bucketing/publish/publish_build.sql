{#-
  Points the partitions of a table to the directories of a complete build, and drops the build's table, whose files stay.

  With the session extension, this is one statement. Stock Spark publishes one partition after the other. A property of the build therefore
  records that it is complete, so that the next run publishes the rest if this one crashes. Properties of the table record the directories that
  the partitions leave: the next run deletes those of earlier builds, so that queries on them can finish. Default directories are deleted at
  once, because a partition that is dropped and created again would get their files.

  identity: string, identity of the table for which the build was written
-#}
{% macro publish_build(relation, build, layout, identity) -%}
  {%- if spark_bucketing.extension_enabled() -%}
    {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' publish build from ' ~ spark_bucketing.quote_relation(build)) %}
  {%- else -%}
    {%- set left = spark_bucketing.used_directories(relation, spark_bucketing.partitions_of(build), layout) -%}
    {%- set now = spark_bucketing.table_layout(relation) -%}
    {% do spark_bucketing.record_superseded(relation, now, (now.superseded + left) | unique | list) %}
    {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(build) ~ ' set tblproperties '
        ~ spark_bucketing.property_list({'bucketing.replaces': spark_bucketing.replaced_table(relation, layout, identity)})) %}
    {% do spark_bucketing.publish_partitions(relation, build, layout) %}
    {% do spark_bucketing.delete_defaults(relation, left) %}
  {%- endif -%}
  {% do spark_bucketing.drop_tables([build]) %}
{%- endmacro %}


{#-
  Publishes a build with statements of stock Spark. Each is atomic and can be repeated. Drops partitions that are left without rows: the build has
  them, but no rows in them.
-#}
{% macro publish_partitions(relation, build, layout) -%}
  {%- set alter = 'alter table ' ~ spark_bucketing.quote_relation(relation) -%}
  {%- set location = spark_bucketing.table_layout(build).location -%}
  {%- set there = spark_bucketing.partitions_of(relation) -%}
  {%- set filled = spark_bucketing.partition_values(layout.partition_by, spark_bucketing.quote_relation(build)) -%}
  {%- set names = run_query('show partitions ' ~ spark_bucketing.quote_relation(build)).columns[0].values() | list -%}
  {%- set built = [] -%}
  {%- for name in names -%}
    {%- do built.append(spark_bucketing.values_of_partition(name)) -%}
  {%- endfor -%}
  {%- for values in filled if values not in built -%}
    {% do exceptions.raise_compiler_error("Model '" ~ model.name ~ "': Spark shows the partition " ~ values ~ ' of ' ~ build
        ~ ' differently in SHOW PARTITIONS.\n  found:    ' ~ built[:3] ~ '\n  expected: the same values\n  instead:  load the session extension, which publishes by directory') %}
  {%- endfor -%}
  {%- set added, emptied = [], [] -%}
  {%- for name in names -%}
    {%- set values = built[loop.index0] -%}
    {%- set spec = spark_bucketing.partition_specs(layout.partition_by, [values])[0] -%}
    {%- set directory = ' location ' ~ spark_bucketing.string_literal(location ~ '/' ~ name) -%}
    {%- if values not in filled -%}
      {%- do emptied.append(spec) -%}
    {%- endif -%}
    {%- if values in there -%}
      {% do spark_bucketing.execute_sql(alter ~ ' ' ~ spec ~ ' set' ~ directory) %}
    {%- elif values in filled -%}
      {%- do added.append(spec ~ directory) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- if added -%}
    {% do spark_bucketing.execute_sql(alter ~ ' add if not exists ' ~ added | join(' ')) %}
  {%- endif -%}
  {%- if emptied -%}
    {% do spark_bucketing.execute_sql(alter ~ ' drop if exists ' ~ emptied | join(', ')) %}
  {%- endif -%}
{%- endmacro %}


{#-
  Returns an identifier of the table that a build is for. It consists of the table's identity, its columns and, for a timestamp partition column,
  the time zone.
-#}
{% macro replaced_table(relation, layout, identity) -%}
  {%- set columns = spark_bucketing.table_columns(spark_bucketing.quote_relation(relation)) -%}
  {%- set names = columns | map(attribute='name') | list + layout.partition_by -%}
  {%- set by_time = spark_bucketing.columns_named(columns, layout.partition_by) | selectattr('type', 'equalto', 'timestamp') | list -%}
  {%- set zone = ' in ' ~ run_query('select current_timezone()').rows[0][0] if by_time else '' -%}
  {{ return(identity ~ ' with columns ' ~ local_md5(names | join(', ') | lower) ~ zone) }}
{%- endmacro %}
