{#-
  Raises unless every file of the table is the only one of its bucket. Lists names, opens no file. It runs before a new
  table takes the old one's place.

  since: microseconds since 1970; only files written from then on are looked at
-#}
{% macro verify_buckets(relation, layout, since=0) -%}
  {%- set location = spark_bucketing.table_layout(relation).location -%}
  {%- set files = spark_bucketing.files_below_sql(location, since) -%}
  {%- set offenders = run_query(spark_bucketing.misplaced_files_sql(files, layout.bucket_hash, layout.buckets) ~ ' limit 3').rows -%}
  {%- if offenders | length > 0 -%}
    {%- set found = [] -%}
    {%- for row in offenders -%}
      {%- do found.append(row[2] ~ ' file(s) of bucket ' ~ (row[1] if row[1] is not none else '(no bucket in the name)') ~ ' in ' ~ row[0]) -%}
    {%- endfor -%}
    {% do exceptions.raise_compiler_error(
        "Model '" ~ model.name ~ "' was not written as one file for each bucket:\n  " ~ found | join('\n  ')
        ~ "\nThe rows are complete, only their layout is not what the table claims. One cause is known: another statement of the same"
        ~ " session read " ~ relation ~ " while it was written. Run the model again.") %}
  {%- endif -%}
{%- endmacro %}
