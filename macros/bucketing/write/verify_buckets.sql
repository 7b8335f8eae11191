{#-
  Raises unless every file of the table is the only one of its bucket. Lists names, opens no file. It runs before a new
  table takes the old one's place.

  before: from before_write(), to look only at what was written since; none for all files
-#}
{% macro verify_buckets(relation, layout, before=none) -%}
  {%- set is_new = not before and not layout.location_root and relation.identifier == spark_bucketing.sibling(this, 'tmp').identifier -%}
  {%- set existing = {'location': spark_bucketing.default_location(relation)} if is_new
      else before.existing if before else spark_bucketing.table_layout(relation) -%}
  {%- if before and existing.evolved -%}
    {% do spark_bucketing.verify_partitions(relation, layout, existing, before) %}
    {{ return(none) }}
  {%- endif -%}
  {%- set files = spark_bucketing.files_below_sql(existing.location, before.since if before else 0) -%}
  {%- set offenders = run_query(spark_bucketing.misplaced_files_sql(files, layout.bucket_hash, layout.buckets) ~ ' limit 3').rows -%}
  {%- if offenders | length > 0 -%}
    {%- set found = [] -%}
    {%- for row in offenders -%}
      {%- do found.append(row[2] ~ ' file(s) of bucket ' ~ (row[1] if row[1] is not none else '(no bucket in the name)') ~ ' in ' ~ row[0]) -%}
    {%- endfor -%}
    {% do spark_bucketing.raise_misplaced_files(relation, found) %}
  {%- endif -%}
{%- endmacro %}
