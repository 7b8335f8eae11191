{#-
  CREATE TABLE of an empty bucketed table, or, of a layout without bucket columns, of an organized one.

  Each build has an id, a property that stays with the table when it is renamed: it tells two tables of one name apart. With
  `location_root`, it is also the build's directory below location_root/alias: the previous build's files stay untouched
  until the new table is complete, and no rename has to move data.
-#}
{% macro bucketed_table_ddl(relation, columns, layout) -%}
  {%- set hive = layout.bucket_hash == 'hive' -%}
  {%- set build = 'build-' ~ modules.datetime.datetime.now().strftime('%Y%m%d%H%M%S%f') -%}
  {%- do context.update({'__spark_bucketing_build': build}) -%}
  {%- set properties = dict(layout.tblproperties) -%}
  {%- do properties.update({'bucketing.build': build}) -%}
  {%- if hive -%}
    {%- do properties.update({'bucketing_version': '1'}) -%}
  {%- endif -%}
  {%- if not layout.clustered_by -%}
    {%- do properties.update({'bucketing.written_as': spark_bucketing.written_as(layout)}) -%}
    {%- for setting in ['range_by', 'implicit_partition_by'] if layout[setting] -%}
      {%- do properties.update({'bucketing.' ~ setting: tojson(layout[setting])}) -%}
    {%- endfor -%}
  {%- endif -%}
  create table {{ spark_bucketing.quote_relation(relation) }} (
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
  {%- if layout.location_root %}
  location {{ spark_bucketing.string_literal(layout.location_root.rstrip('/') ~ '/' ~ model.alias ~ '/' ~ build) }}
  {%- endif %}
  tblproperties {{ spark_bucketing.property_list(properties) }}
{%- endmacro %}


{#- Columns that come from a table of another layout may be spelled as Hive's metastore does not keep bucket columns; see resolve_layout(). -#}
{% macro spelled_for_hive(columns, layout) -%}
  {%- set keys = (layout.clustered_by + layout.sorted_by) | map('lower') | list -%}
  {%- set spelled = [] -%}
  {%- for column in columns -%}
    {%- do spelled.append(dict(column, name=column.name | lower) if column.name | lower in keys else column) -%}
  {%- endfor -%}
  {{ return(spelled) }}
{%- endmacro %}


{#- STORED AS, spelled out, since it takes no options. Without the first of them, a session's cap on rows per file splits buckets. -#}
{% macro hive_storage_clause(layout) -%}
  {%- set classes = {
      'parquet': ['ql.io.parquet.serde.ParquetHiveSerDe', 'ql.io.parquet.MapredParquetInputFormat', 'ql.io.parquet.MapredParquetOutputFormat'],
      'orc': ['ql.io.orc.OrcSerde', 'ql.io.orc.OrcInputFormat', 'ql.io.orc.OrcOutputFormat'],
  }[layout.file_format] -%}
  row format serde 'org.apache.hadoop.hive.{{ classes[0] }}' with serdeproperties {{ spark_bucketing.property_list(dict(layout.options, maxRecordsPerFile='0')) }}
  stored as inputformat 'org.apache.hadoop.hive.{{ classes[1] }}' outputformat 'org.apache.hadoop.hive.{{ classes[2] }}'
{%- endmacro %}
