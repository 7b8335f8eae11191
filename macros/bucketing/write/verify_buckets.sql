{#-
  Raises unless every file is the only one of its bucket. Looks at names, opens no file. It runs before a new table takes the
  old one's place. Where writes leave seals, one question after them is all, unless something is not sealed.

  before: from before_write(), to look only at what was written since; none for all files
  source: SQL of the relation or query whose partitions were replaced, to look only at these; none for all
  staged: the staging table that has the rows as well; none where the next run replaces all of them
  build: what this run has built, to make sure that it is still that; none where it has not built the table
-#}
{% macro verify_buckets(relation, layout, before=none, source=none, staged=none, build=none) -%}
  {%- set conditions = [] -%}
  {%- if spark_bucketing.extension_enabled() -%}
    {%- set loose = [] -%}
    {%- set unsealed = run_query(spark_bucketing.unsealed_sql(relation, several=not before, build=build)).rows -%}
    {%- for row in unsealed if build -%}
      {% do spark_bucketing.validate_build(relation, row[2], build) %}
    {%- endfor -%}
    {%- set written = spark_bucketing.partition_values(layout.partition_by, source) if source and unsealed else none -%}
    {%- for row in unsealed if written is none or spark_bucketing.values_of_partition(row[1]) in written -%}
      {%- do loose.append(spark_bucketing.directory_of_location(spark_bucketing.string_literal(row[0]))) -%}
    {%- endfor -%}
    {%- if not loose -%}
      {{ return(none) }}
    {%- endif -%}
    {%- do conditions.append(spark_bucketing.directory_of_file('path') ~ ' in (' ~ loose | join(', ') ~ ')') -%}
  {%- endif -%}
  {%- if before and before.writes -%}
    {%- set others = spark_bucketing.literal_rows([before.writes])[0] | join(', ') -%}
    {%- do conditions.append(spark_bucketing.write_of_path('path') ~ ' not in (' ~ others ~ ')') -%}
  {%- endif -%}
  {%- set files = spark_bucketing.directory_files_sql(spark_bucketing.table_location(relation, layout), before.since if before else 0) -%}
  {%- if conditions -%}
    {%- set files = 'select path from (' ~ files ~ ') where ' ~ conditions | join(' and ') -%}
  {%- endif -%}
  {%- set found = [] -%}
  {%- for row in run_query(spark_bucketing.misplaced_files_sql(files, layout.bucket_hash, layout.buckets) ~ ' limit 3').rows -%}
    {%- do found.append(row[2] ~ ' file(s) of bucket ' ~ (row[1] if row[1] is not none else '(no bucket in the name)') ~ ' in ' ~ row[0]) -%}
  {%- endfor -%}
  {%- if found -%}
    {% do exceptions.raise_compiler_error(
        "Model '" ~ model.name ~ "' was not written as one file for each bucket:\n  " ~ found | join('\n  ')
        ~ "\nThe rows are complete, only their layout is not what the table claims. One cause is known: another statement of the same"
        ~ ' session read ' ~ relation ~ ' while it was written. ' ~ ('They are in ' ~ staged ~ ', too: the next run writes them again from there before it does'
        ~ ' anything else. One of an `append` that does not filter by what the table has then adds its rows once more; `spark-bucketing table rewrite` adds none.'
        if staged else 'Run the model again.')) %}
  {%- endif -%}
{%- endmacro %}


{#-
  Query for the location and name of each partition (of the table, if it has none) that is not sealed, has several files of a bucket, or is
  not of this build; and for the build.
-#}
{% macro unsealed_sql(relation, several=true, build=none) -%}
  select location, partition{{ ', build' if build }} from bucket_specs({{ spark_bucketing.string_literal(spark_bucketing.quote_relation(relation)) }})
  where status not in ('sealed', 'empty'){{ ' or max_files_per_bucket > 1' if several }}{{ ' or not build <=> ' ~ spark_bucketing.string_literal(build) if build }}
{%- endmacro %}


{#- Where a table lies; of one that this run has made, that is known. -#}
{% macro table_location(relation, layout) -%}
  {%- set made = not layout.location_root and spark_bucketing.quote_relation(relation) in context.get('__spark_bucketing_made', {}) -%}
  {{ return(spark_bucketing.default_location(relation) if made else spark_bucketing.table_layout(relation).location) }}
{%- endmacro %}
