{#-
  Raises unless every file is the only one of its bucket. Lists names, opens no file. It runs before a new table takes the
  old one's place.

  before: from before_write(), to look only at what was written since; none for all files
-#}
{% macro verify_buckets(relation, layout, before=none) -%}
  {%- set files = spark_bucketing.files_below_sql(spark_bucketing.table_layout(relation).location, before.since if before else 0) -%}
  {%- if before -%}
    {%- set others = [] -%}
    {%- for write in before.writes -%}{%- do others.append(spark_bucketing.string_literal(write)) -%}{%- endfor -%}
    {%- set files = 'select path from (' ~ files ~ ') where ' ~ spark_bucketing.write_of_path('path') ~ ' not in (' ~ others | join(', ') ~ ')' -%}
  {%- endif -%}
  {%- set found = [] -%}
  {%- for row in run_query(spark_bucketing.misplaced_files_sql(files, layout.bucket_hash, layout.buckets) ~ ' limit 3').rows -%}
    {%- do found.append(row[2] ~ ' file(s) of bucket ' ~ (row[1] if row[1] is not none else '(no bucket in the name)') ~ ' in ' ~ row[0]) -%}
  {%- endfor -%}
  {%- if found -%}
    {% do spark_bucketing.raise_misplaced_files(relation, found) %}
  {%- endif -%}
{%- endmacro %}
