{#- Raises an error if two batches wrote to the same partition. The macro distinguishes writes by the unique id in the names of their files. -#}
{% macro validate_batch_partitions(relation, layout) -%}
  {%- set writes = 'count(distinct ' ~ spark_bucketing.write_of_path('path') ~ ')' -%}
  {%- set shared -%}
    select regexp_extract(path, '^(.*)/[^/]*$', 1), {{ writes }}
    from ({{ spark_bucketing.directory_files_sql(spark_bucketing.table_location(relation, layout)) }})
    group by 1 having {{ writes }} > 1 limit 1
  {%- endset -%}
  {%- set found = run_query(shared).rows -%}
  {%- if found | length > 0 -%}
    {% do exceptions.raise_compiler_error(spark_bucketing.coarse_partition_error(found[0][1] ~ ' batches write to ' ~ found[0][0], layout)) %}
  {%- endif -%}
{%- endmacro %}
