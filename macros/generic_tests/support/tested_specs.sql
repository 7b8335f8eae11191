{#-
  Returns the bucket specs of a table's partitions, without reading rows. An unpartitioned table counts as one partition. Without the session
  extension, all files count as unsealed, with the bucket spec of the table.
    sealed   list of {partition, location, buckets, clustered_by, sorted_by, files, described} for partitions with a valid seal
    loose    the same list for unsealed partitions with buckets, with `status` and `problem`. The spec comes from their descriptor. If the descriptor
             has no spec, and the file names contain bucket ids, the spec comes from the table
    known    bool, whether the specs come from the session extension
    groups   list of the distinct specs {clustered_by, sorted_by, buckets}
    sql      query that returns the directory, partition, buckets and `spec` (index in `groups`) of the `loose` partitions
    all_sql  the same query for `sealed` and `loose` partitions
    rows     SQL for a relation that contains the rows of the `loose` partitions
  The macro skips partitions without buckets, and logs their number.
-#}
{% macro tested_specs(tested, relation, layout) -%}
  {%- set known = spark_bucketing.is_extensions_function('bucket_specs', 'BucketSpecsFunction') -%}
  {%- set question -%}
    select concat('v', to_json(struct(*))) from bucket_specs({{ spark_bucketing.string_literal(spark_bucketing.quote_relation(relation)) }}) order by partition
  {%- endset -%}
  {%- set sealed = [] -%}
  {%- set loose = [] if known else [dict(layout, partition='', location='')] -%}
  {%- set state = namespace(unbucketed=0) -%}
  {#- The prefix 'v' prevents dbt from converting the value to another type. -#}
  {%- for row in (run_query(question).rows if known else []) -%}
    {#- The JSON omits NULL fields. -#}
    {%- set part = fromjson(row[0][1:]) -%}
    {%- set described = {'buckets': part.descriptor_num_buckets or 0, 'clustered_by': part.descriptor_bucket_columns or [], 'sorted_by': part.descriptor_sort_columns or []} -%}
    {%- set common = {'partition': part.partition, 'location': part.location, 'status': part.status, 'problem': part.problem or '',
        'files': part.get('max_files_per_bucket'), 'described': described} -%}
    {%- if part.status == 'sealed' -%}
      {%- do sealed.append(dict(common, buckets=part.num_buckets, clustered_by=part.bucket_columns, sorted_by=part.sort_columns)) -%}
    {%- elif described.buckets and (part.status != 'empty' or not part.partition) -%}
      {%- do loose.append(dict(common, **described)) -%}
    {%- elif part.status != 'empty' and layout.buckets and (part.get('max_files_per_bucket') is not none or layout.bucket_hash == 'spark') -%}
      {%- do loose.append(dict(common, buckets=layout.buckets, clustered_by=layout.clustered_by, sorted_by=layout.sorted_by)) -%}
    {%- elif part.status != 'empty' -%}
      {%- set state.unbucketed = state.unbucketed + 1 -%}
    {%- endif -%}
  {%- endfor -%}
  {%- if state.unbucketed -%}
    {% do spark_bucketing.log_test("Test `" ~ model.name ~ "` skips " ~ state.unbucketed ~ ' of ' ~ (state.unbucketed + sealed | length + loose | length)
        ~ ' partition(s) of ' ~ relation ~ ', which have no buckets.') %}
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


{#- Returns a SQL condition that is true if a file belongs to a partition from partitions_sql(). -#}
{% macro is_of_partition(specs, path) -%}
  {{ return(spark_bucketing.directory_of_file(path) ~ ' = partitions.directory' if specs.known else 'true') }}
{%- endmacro %}


{#- Returns SQL for the tested rows in these partitions. Spark reads no other rows. -#}
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
