{#-
  Returns the CREATE TABLE statement for a bucketed table, or for an organized table if the layout has no bucket columns. The context of the run keeps
  the id of the build, and whether the table is a managed table.

  Each CREATE TABLE gets a build id, which is stored in a table property. A rename, or a build that replaces only rows, does not change it. With `location_root`, the id is
  also the name of the table's directory below location_root/alias. Therefore, the previous build keeps its files until the new table is complete, and
  renaming the table moves no data.

  columns: list of {name, type, comment} in the order of the query; the table has the partition columns last
  layout: dict, from resolve_layout() or resolve_organized_layout()
-#}
{% macro bucketed_table_ddl(relation, columns, layout) -%}
  {%- set build = 'build-' ~ modules.datetime.datetime.now().strftime('%Y%m%d%H%M%S%f') -%}
  {%- do context.update({'__spark_bucketing_build': build}) -%}
  {%- do context.setdefault('__spark_bucketing_made', {}).update({spark_bucketing.quote_relation(relation): layout.location_root is none}) -%}
  {%- set properties = spark_bucketing.table_properties(layout) -%}
  {%- do properties.update({'bucketing.build': build, 'bucketing.definition': spark_bucketing.definition_digest(columns, layout)}) -%}
  create table {{ spark_bucketing.quote_relation(relation) }} {{ spark_bucketing.table_definition(columns, layout) }}
  {%- if layout.location_root %}
  location {{ spark_bucketing.string_literal(layout.location_root.rstrip('/') ~ '/' ~ model.alias ~ '/' ~ build) }}
  {%- endif %}
  tblproperties {{ spark_bucketing.property_list(properties) }}
{%- endmacro %}


{#- Returns the clauses of CREATE TABLE that are the same for each build. -#}
{% macro table_definition(columns, layout) -%}
  {%- set hive = layout.bucket_hash in spark_bucketing.bucketing_versions() -%}
  (
    {{ spark_bucketing.column_definitions(spark_bucketing.spelled_for_hive(columns, layout) if hive else columns, layout.partition_by) }}
  )
  {%- if not hive %}
  using {{ layout.file_format }}
  options {{ spark_bucketing.property_list(dict(layout.options, maxRecordsPerFile='0')) }}
  {%- endif %}
  {%- if config.persist_relation_docs() and model.description %}
  comment {{ spark_bucketing.string_literal(model.description) }}
  {%- endif %}
  {%- if layout.partition_by %}
  partitioned by ({{ spark_bucketing.quote_columns(layout.partition_by) }})
  {%- endif %}
  {%- if layout.clustered_by %}
  {{ spark_bucketing.bucket_clause(layout) }}
  {%- endif %}
  {%- if hive %}
  {{ spark_bucketing.hive_storage_clause(layout) }}
  {%- endif %}
{%- endmacro %}


{#- Returns the table properties that are the same for each build. -#}
{% macro table_properties(layout) -%}
  {%- set properties = dict(layout.tblproperties) -%}
  {%- if layout.bucket_hash in spark_bucketing.bucketing_versions() -%}
    {%- do properties.update({'bucketing_version': spark_bucketing.bucketing_versions()[layout.bucket_hash]}) -%}
  {%- endif -%}
  {%- if not layout.clustered_by -%}
    {%- do properties.update(spark_bucketing.file_size_properties(layout)) -%}
    {#- A table with one of these properties has file statistics. -#}
    {%- set needed = 'range_by' if spark_bucketing.overwrites_files(layout) and not layout.implicit_partition_by else none -%}
    {%- for setting in ['range_by', 'implicit_partition_by'] if layout[setting] or setting == needed -%}
      {%- do properties.update({'bucketing.' ~ setting: tojson(layout[setting])}) -%}
    {%- endfor -%}
  {%- endif -%}
  {{ return(properties) }}
{%- endmacro %}


{#-
  Returns a digest of the definition of a table, without the sizes of its files. If it is the same for the next build, the build can replace the rows of
  the table.
-#}
{% macro definition_digest(columns, layout) -%}
  {%- set properties = spark_bucketing.table_properties(layout) -%}
  {%- for key in ([] if layout.clustered_by else spark_bucketing.file_size_properties(layout)) -%}
    {%- do properties.pop(key) -%}
  {%- endfor -%}
  {{ return(local_md5(spark_bucketing.table_definition(columns, layout) ~ spark_bucketing.property_list(properties) ~ layout.location_root)) }}
{%- endmacro %}


{#- Returns the columns with the names of bucket and sort columns in lower case; see resolve_layout(). In an existing table, the case may differ. -#}
{% macro spelled_for_hive(columns, layout) -%}
  {%- set keys = (layout.clustered_by + layout.sorted_by) | map('lower') | list -%}
  {%- set spelled = [] -%}
  {%- for column in columns -%}
    {%- do spelled.append(dict(column, name=column.name | lower) if column.name | lower in keys else column) -%}
  {%- endfor -%}
  {{ return(spelled) }}
{%- endmacro %}


{#-
  Returns the storage clause of a Hive table, which replaces STORED AS because STORED AS accepts no options. The option maxRecordsPerFile=0 prevents a
  session setting from splitting a bucket into several files.
-#}
{% macro hive_storage_clause(layout) -%}
  {%- set classes = {
      'parquet': ['ql.io.parquet.serde.ParquetHiveSerDe', 'ql.io.parquet.MapredParquetInputFormat', 'ql.io.parquet.MapredParquetOutputFormat'],
      'orc': ['ql.io.orc.OrcSerde', 'ql.io.orc.OrcInputFormat', 'ql.io.orc.OrcOutputFormat'],
  }[layout.file_format] -%}
  row format serde 'org.apache.hadoop.hive.{{ classes[0] }}' with serdeproperties {{ spark_bucketing.property_list(dict(layout.options, maxRecordsPerFile='0')) }}
  stored as inputformat 'org.apache.hadoop.hive.{{ classes[1] }}' outputformat 'org.apache.hadoop.hive.{{ classes[2] }}'
{%- endmacro %}
