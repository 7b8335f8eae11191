{#-
  What is known of a table's partitions (of the table, if it has none) without reading a row. Where the session has no session extension
  that could be asked, all files are loose, and of the table's own spec.
    sealed   partitions whose files are proven: list of {partition, location, buckets, clustered_by, sorted_by, files, described}
    loose    those that have buckets and no (valid) seal, by their own descriptor, or by the table's spec where that is
             lost and their files have names of buckets; also `status` and `problem`
    known    whether the session was asked
    groups   the different specs, each {clustered_by, sorted_by, buckets}
    sql      query for directory, partition, buckets, and `spec`, the index of its group, of the loose ones
    all_sql  the same of the sealed ones as well
    rows     what the rows of the loose ones are selected from
  Partitions that have no buckets are left out, which is said.
-#}
{% macro tested_specs(tested, relation, layout) -%}
  {%- set known = spark_bucketing.is_extensions_function('bucket_specs', 'BucketSpecsFunction') -%}
  {%- set question -%}
    select concat('v', to_json(struct(*))) from bucket_specs({{ spark_bucketing.string_literal(spark_bucketing.quote_relation(relation)) }}) order by partition
  {%- endset -%}
  {%- set sealed = [] -%}
  {%- set loose = [] if known else [dict(layout, partition='', location='')] -%}
  {%- set state = namespace(plain=0) -%}
  {#- The 'v' keeps dbt from reading anything but text. -#}
  {%- for row in (run_query(question).rows if known else []) -%}
    {#- Fields that are NULL are not in the JSON. -#}
    {%- set part = fromjson(row[0][1:]) -%}
    {%- set described = {'buckets': part.descriptor_num_buckets or 0, 'clustered_by': part.descriptor_bucket_columns or [], 'sorted_by': part.descriptor_sort_columns or []} -%}
    {%- set told = {'partition': part.partition, 'location': part.location, 'status': part.status, 'problem': part.problem or '',
        'files': part.get('max_files_per_bucket'), 'described': described} -%}
    {%- if part.status == 'sealed' -%}
      {%- do sealed.append(dict(told, buckets=part.num_buckets, clustered_by=part.bucket_columns, sorted_by=part.sort_columns)) -%}
    {%- elif described.buckets and (part.status != 'empty' or not part.partition) -%}
      {%- do loose.append(dict(told, **described)) -%}
    {%- elif part.status != 'empty' and layout.buckets and (part.get('max_files_per_bucket') is not none or layout.bucket_hash == 'spark') -%}
      {%- do loose.append(dict(told, buckets=layout.buckets, clustered_by=layout.clustered_by, sorted_by=layout.sorted_by)) -%}
    {%- elif part.status != 'empty' -%}
      {%- set state.plain = state.plain + 1 -%}
    {%- endif -%}
  {%- endfor -%}
  {%- if state.plain -%}
    {% do log("Test '" ~ model.name ~ "' of " ~ relation ~ ': ' ~ state.plain ~ ' of ' ~ (state.plain + sealed | length + loose | length)
        ~ ' partition(s) have no buckets and are left out.', info=true) %}
  {%- endif -%}
  {%- set groups = [] -%}
  {%- for part in sealed + loose -%}
    {%- set group = {'buckets': part.buckets, 'clustered_by': part.clustered_by, 'sorted_by': part.sorted_by} -%}
    {%- do groups.append(group) if group not in groups -%}
  {%- endfor -%}
  {{ return({
      'sealed': sealed,
      'loose': loose,
      'known': known,
      'groups': groups,
      'sql': spark_bucketing.partitions_sql(loose, groups),
      'all_sql': spark_bucketing.partitions_sql(sealed + loose, groups),
      'rows': spark_bucketing.rows_of_partitions(tested, relation, layout, loose) if known else spark_bucketing.tested_rows(tested),
  }) }}
{%- endmacro %}


{% macro partitions_sql(parts, groups) -%}
  {%- set rows = [] -%}
  {%- for part in parts -%}
    {%- set group = {'buckets': part.buckets, 'clustered_by': part.clustered_by, 'sorted_by': part.sorted_by} -%}
    {%- do rows.append('(' ~ spark_bucketing.directory_of_location(spark_bucketing.string_literal(part.location)) ~ ', '
        ~ spark_bucketing.string_literal(part.partition) ~ ', ' ~ part.buckets ~ ', ' ~ groups.index(group) ~ ')') -%}
  {%- endfor -%}
  {{ return('(select * from values ' ~ (rows or ["('', '', 0, 0)"]) | join(', ') ~ ' as parts (directory, partition, buckets, spec))') }}
{%- endmacro %}


{#- SQL condition that a file is one of a partition of partitions_sql(). -#}
{% macro is_of_partition(specs, path) -%}
  {{ return(spark_bucketing.directory_of_file(path) ~ ' = partitions.directory' if specs.known else 'true') }}
{%- endmacro %}


{#- The rows under test in these partitions, so that no other is read. -#}
{% macro rows_of_partitions(tested, relation, layout, parts) -%}
  {%- set rows = spark_bucketing.tested_rows(tested) -%}
  {%- if not layout.partition_by or not parts -%}
    {{ return(rows) }}
  {%- endif -%}
  {%- set partitions = [] -%}
  {%- for part in parts -%}
    {%- do partitions.append(spark_bucketing.values_of_partition(part.partition)) -%}
  {%- endfor -%}
  {%- set columns = spark_bucketing.table_columns(spark_bucketing.quote_relation(relation)) -%}
  {{ return('(select * from ' ~ rows ~ ' where '
      ~ spark_bucketing.partition_predicate(spark_bucketing.columns_named(columns, layout.partition_by), partitions) ~ ')') }}
{%- endmacro %}
