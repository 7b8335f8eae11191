{#-
  Raises an error unless every bucket has at most one file in each partition. The macro checks the names of the files without opening them. If this
  run built the table, it runs before the new table replaces the old one. With the session extension, a single query then reads the seals, and the
  macro lists only unsealed files.

  before: dict from before_write(), to check only newer files, or none if this run built the table
  build: string, id of this run's build, which the table must still have, or none if the run did not build the table
-#}
{% macro verify_buckets(relation, layout, before=none, build=none) -%}
  {%- if not layout.clustered_by -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set conditions = [] -%}
  {%- if build and spark_bucketing.extension_enabled() -%}
    {%- set loose = [] -%}
    {%- for row in run_query(spark_bucketing.unsealed_sql(relation, build)).rows -%}
      {% do spark_bucketing.validate_build(relation, row[1], build) %}
      {%- do loose.append(spark_bucketing.directory_of_location(spark_bucketing.string_literal(row[0]))) -%}
    {%- endfor -%}
    {%- if not loose -%}
      {{ return(none) }}
    {%- endif -%}
    {%- do conditions.append(spark_bucketing.directory_of_file('path') ~ ' in (' ~ loose | join(', ') ~ ')') -%}
  {%- endif -%}
  {%- if before -%}
    {%- set others = spark_bucketing.literal_rows([before.writes])[0] | join(', ') -%}
    {%- do conditions.append(spark_bucketing.write_of_path('path') ~ ' not in (' ~ others ~ ')') -%}
  {%- endif -%}
  {%- set files = spark_bucketing.directory_files_sql(spark_bucketing.table_location(relation, layout), before.since if before else 0) -%}
  {%- if conditions -%}
    {%- set files = 'select path from (' ~ files ~ ') where ' ~ conditions | join(' and ') -%}
  {%- endif -%}
  {%- set found = [] -%}
  {%- for row in run_query(spark_bucketing.misplaced_files_sql(files, layout.bucket_hash, layout.buckets) ~ ' limit 3').rows -%}
    {%- do found.append(row[2] ~ ' file(s) of bucket ' ~ (row[1] if row[1] is not none else '(no bucket id in the name)') ~ ' in ' ~ row[0]) -%}
  {%- endfor -%}
  {%- if found -%}
    {% do exceptions.raise_compiler_error(spark_bucketing.error_message(
        'Model `' ~ model.name ~ '` was not written as one file per bucket. The table has all of its rows.', found | join('\n'),
        'one file per bucket, and no other statement in the same session that reads ' ~ relation ~ ' during the write',
        'run the model again')) %}
  {%- endif -%}
{%- endmacro %}


{#-
  Returns a query that finds partitions that are not sealed, have several files in a bucket, or belong to another build. The columns are location
  and build. An unpartitioned table counts as one partition.
-#}
{% macro unsealed_sql(relation, build) -%}
  select location, build from bucket_specs({{ spark_bucketing.string_literal(spark_bucketing.quote_relation(relation)) }})
  where status not in ('sealed', 'empty') or max_files_per_bucket > 1 or not build <=> {{ spark_bucketing.string_literal(build) }}
{%- endmacro %}


{#- Returns the location of a table, without a query if this run created the table. -#}
{% macro table_location(relation, layout) -%}
  {%- set made = not layout.location_root and spark_bucketing.quote_relation(relation) in context.get('__spark_bucketing_made', {}) -%}
  {{ return(spark_bucketing.default_location(relation) if made else spark_bucketing.table_layout(relation).location) }}
{%- endmacro %}
