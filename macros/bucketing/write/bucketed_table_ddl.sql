{% macro bucketed_table_ddl(relation, columns, layout) -%}
  {%- set hive = layout.bucket_hash == 'hive' -%}
  {%- set build = spark_bucketing.build_location(relation, layout) -%}
  {%- set properties = dict(layout.tblproperties) -%}
  {%- if hive -%}
    {%- do properties.update({'bucketing_version': '1'}) -%}
  {%- endif -%}
  {%- if build -%}
    {%- do properties.update({'bucketing.build': build.id}) -%}
  {%- endif -%}
  create table {{ spark_bucketing.quote_relation(relation) }} (
    {{ spark_bucketing.column_definitions(columns, layout.partition_by) }}
  )
  {%- if not hive %}
  using {{ layout.file_format }}
  options {{ spark_bucketing.property_list(dict(layout.options, maxRecordsPerFile='0')) }}
  {%- endif %}
  {{ spark_bucketing.table_comment_clause() }}
  {%- if layout.partition_by %}
  partitioned by ({{ spark_bucketing.quote_columns(layout.partition_by) }})
  {%- endif %}
  clustered by ({{ spark_bucketing.quote_columns(layout.clustered_by) }})
  {%- if layout.sorted_by %}
  sorted by ({{ spark_bucketing.quote_columns(layout.sorted_by) }})
  {%- endif %}
  into {{ layout.buckets }} buckets
  {%- if hive %}
  stored as {{ layout.file_format }}
  {%- endif %}
  {%- if build %}
  location {{ spark_bucketing.string_literal(build.location) }}
  {%- endif %}
  {%- if properties %}
  tblproperties {{ spark_bucketing.property_list(properties) }}
  {%- endif %}
{%- endmacro %}
