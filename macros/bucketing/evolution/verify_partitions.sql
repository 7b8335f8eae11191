{#-
  verify_buckets() for a table whose partitions have specs of their own: looks at the partitions that this run wrote, and
  at all files in them. Afterwards each of them has the record of the table's spec.

  before: from before_write()
-#}
{% macro verify_partitions(relation, layout, existing, before) -%}
  {%- set bucket = spark_bucketing.bucket_of_path('path', 'hive') -%}
  {%- set written -%}
    select directory, max(is_new) as is_new, max_by(concat(files, ' file(s) of bucket ', coalesce(bucket, '(no bucket in the name)')), is_wrong) as worst, max(is_wrong) as is_wrong
    from (
      select *, files > 1 or bucket is null or bucket >= {{ layout.buckets }} as is_wrong
      from (
        select {{ spark_bucketing.directory_of_file('path') }} as directory, {{ bucket }} as bucket, count(*) as files, max(is_new) as is_new
        from (
          select input_file_name() as path, {{ spark_bucketing.is_of_this_run('input_file_name()', 'modificationTime', before) }} as is_new
          from binaryFile.{{ spark_bucketing.quote_identifier(existing.location) }} with ('recursiveFileLookup' = 'true')
        )
        group by 1, 2
      )
    )
    group by directory having max(is_new)
  {%- endset -%}
  {%- set directories = [] -%}
  {%- set found = [] -%}
  {%- for row in run_query(written).rows -%}
    {%- do directories.append(spark_bucketing.string_literal(row['directory'])) -%}
    {%- if row['is_wrong'] -%}
      {%- do found.append(row['worst'] ~ ' in ' ~ row['directory']) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- if found -%}
    {% do spark_bucketing.raise_misplaced_files(relation, found[:3]) %}
  {%- elif directories -%}
    {% do spark_bucketing.record_partitions(relation, layout, existing, 'directory in (' ~ directories | join(', ') ~ ')') %}
  {%- endif -%}
{%- endmacro %}


{#- SQL for whether a file was written since before_write(). A write has an id of its own in the names of its files. -#}
{% macro is_of_this_run(path, modified, before) -%}
  {%- set write = spark_bucketing.write_of_path(path) -%}
  {%- set others = [] -%}
  {%- for known in before.writes -%}
    {%- do others.append(spark_bucketing.string_literal(known)) -%}
  {%- endfor -%}
  {{ return(modified ~ ' >= timestamp_micros(' ~ before.since ~ ') and ' ~ write ~ " not in (''" ~ (', ' ~ others | join(', ') if others else '') ~ ')') }}
{%- endmacro %}


{% macro write_of_path(path) -%}
  {{ return('regexp_extract(' ~ path ~ ", '([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})[^/]*$', 1)") }}
{%- endmacro %}
