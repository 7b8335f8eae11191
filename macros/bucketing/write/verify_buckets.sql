{#-
  Raises unless every file is the only one of its bucket. Looks at names, opens no file. It runs before a new table takes the
  old one's place. Where writes leave seals, one question after them is all, unless something is not sealed.

  before: from before_write(), to look only at what was written since; none for all files
-#}
{% macro verify_buckets(relation, layout, before=none) -%}
  {%- set loose = [] -%}
  {%- if spark_bucketing.leaves_seals() -%}
    {%- set unsealed -%}
      select location from bucket_specs({{ spark_bucketing.string_literal(spark_bucketing.quote_relation(relation)) }})
      where status not in ('sealed', 'empty'){{ ' or max_files_per_bucket > 1' if not before }}
    {%- endset -%}
    {%- for row in run_query(unsealed).rows -%}
      {%- do loose.append(row[0]) -%}
    {%- endfor -%}
    {%- if not loose -%}
      {{ return(none) }}
    {%- endif -%}
  {%- endif -%}
  {%- set files = spark_bucketing.files_below_sql(spark_bucketing.table_location(relation, layout, before), before.since if before else 0) -%}
  {%- if before -%}
    {%- set others = [] -%}
    {%- for write in before.writes -%}{%- do others.append(spark_bucketing.string_literal(write)) -%}{%- endfor -%}
    {%- set files = 'select path from (' ~ files ~ ') where ' ~ spark_bucketing.write_of_path('path') ~ ' not in (' ~ others | join(', ') ~ ')' -%}
  {%- endif -%}
  {%- if loose -%}
    {%- set directories = [] -%}
    {%- for location in loose -%}{%- do directories.append(spark_bucketing.directory_of_location(spark_bucketing.string_literal(location))) -%}{%- endfor -%}
    {%- set files = 'select path from (' ~ files ~ ') where ' ~ spark_bucketing.directory_of_file('path') ~ ' in (' ~ directories | join(', ') ~ ')' -%}
  {%- endif -%}
  {%- set found = [] -%}
  {%- for row in run_query(spark_bucketing.misplaced_files_sql(files, layout.bucket_hash, layout.buckets) ~ ' limit 3').rows -%}
    {%- do found.append(row[2] ~ ' file(s) of bucket ' ~ (row[1] if row[1] is not none else '(no bucket in the name)') ~ ' in ' ~ row[0]) -%}
  {%- endfor -%}
  {%- if found -%}
    {% do spark_bucketing.raise_misplaced_files(relation, found) %}
  {%- endif -%}
{%- endmacro %}


{#- Where a table lies; of one that this run has made, that is known. -#}
{% macro table_location(relation, layout, before) -%}
  {%- set made = not before and not layout.location_root and relation.identifier.endswith('__dbt_tmp') -%}
  {{ return(spark_bucketing.default_location(relation) if made else spark_bucketing.table_layout(relation).location) }}
{%- endmacro %}


{#- Whether the session has the extension, switched on, which leaves a seal with each write. -#}
{% macro leaves_seals() -%}
  {%- set enabled = spark_bucketing.session_settings().get('spark.bucketing.enabled') -%}
  {{ return((enabled is none or enabled[1] | lower == 'true') and spark_bucketing.is_extensions_function('bucket_specs', 'BucketSpecsFunction')) }}
{%- endmacro %}
