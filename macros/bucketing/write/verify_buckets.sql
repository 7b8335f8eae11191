{#-
  Raises an error unless every bucket has at most one file. Checks file names without opening files, before readers see the files. If the session
  extension is enabled, a single query reads the seals, and only unsealed files are listed.

  relation: relation with the files of this run only
  build: string, id of this run's build, which the relation must still have
-#}
{% macro verify_buckets(relation, layout, build) -%}
  {%- set loose = [] -%}
  {%- if spark_bucketing.extension_enabled() -%}
    {%- for row in run_query(spark_bucketing.unsealed_sql(relation, build)).rows -%}
      {% do spark_bucketing.validate_build(relation, row[1], build) %}
      {%- do loose.append(spark_bucketing.directory_of_location(spark_bucketing.string_literal(row[0]))) -%}
    {%- endfor -%}
    {%- if not loose -%}
      {{ return(none) }}
    {%- endif -%}
  {%- endif -%}
  {%- set files = spark_bucketing.directory_files_sql(spark_bucketing.table_location(relation, layout)) -%}
  {%- if loose -%}
    {%- set files = 'select path from (' ~ files ~ ') where ' ~ spark_bucketing.directory_of_file('path') ~ ' in (' ~ loose | join(', ') ~ ')' -%}
  {%- endif -%}
  {%- set found = [] -%}
  {%- for row in run_query(spark_bucketing.misplaced_files_sql(files, layout.bucket_hash, layout.buckets) ~ ' limit 3').rows -%}
    {%- do found.append(row[2] ~ ' file(s) of bucket ' ~ (row[1] if row[1] is not none else '(no bucket id in the name)') ~ ' in ' ~ row[0]) -%}
  {%- endfor -%}
  {%- if found -%}
    {% do exceptions.raise_compiler_error(
        "Model '" ~ model.name ~ "' was not written as one file per bucket:\n  " ~ found | join('\n  ')
        ~ '\n' ~ this ~ ' keeps its previous rows. A known cause is another statement of the same session that read ' ~ relation
        ~ ' during the write. Run the model again.') %}
  {%- endif -%}
{%- endmacro %}


{#-
  Returns a query for the partitions that are not sealed, have several files in a bucket, or belong to another build: location and build. An
  unpartitioned table counts as one partition.
-#}
{% macro unsealed_sql(relation, build) -%}
  select location, build from bucket_specs({{ spark_bucketing.string_literal(spark_bucketing.quote_relation(relation)) }})
  where status not in ('sealed', 'empty') or max_files_per_bucket > 1 or not build <=> {{ spark_bucketing.string_literal(build) }}
{%- endmacro %}


{#- Returns the location of a table. For a managed table that this run created, no query is necessary. -#}
{% macro table_location(relation, layout) -%}
  {%- set managed = context.get('__spark_bucketing_made', {}).get(spark_bucketing.quote_relation(relation)) -%}
  {{ return(spark_bucketing.default_location(relation) if managed else spark_bucketing.table_layout(relation).location) }}
{%- endmacro %}
