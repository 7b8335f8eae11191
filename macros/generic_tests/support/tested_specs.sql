{#-
  The bucket specs of a table's partitions, or {problem}:
    groups  the different specs, each {clustered_by, sorted_by, buckets} and the names of its key, in a certain order
    sql     query for directory, partition, buckets, and `spec`, the index of its group; both NULL for a broken record
  For a table that never evolved there is one spec, and nothing is asked: none.
-#}
{% macro tested_specs(relation, layout) -%}
  {%- if not layout.evolved -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set missing = spark_bucketing.missing_bucket_specs() -%}
  {%- if missing -%}
    {{ return({'problem': spark_bucketing.test_problem(relation, 'a table whose partitions have bucket specs of their own, and ' ~ missing.found,
        'a session that can be asked for them', missing.instead)}) }}
  {%- endif -%}
  {{ return(spark_bucketing.partition_groups(relation, layout)) }}
{%- endmacro %}


{% macro partition_groups(relation, layout) -%}
  {%- set partitions = spark_bucketing.partition_specs_sql(relation, layout) -%}
  {%- set key = "to_json(array(cast(buckets as string), to_json(clustered_by), to_json(sorted_by)))" -%}
  {%- set groups = [] -%}
  {%- set cases = [] -%}
  {#- The 'v' keeps dbt from reading anything but text. -#}
  {%- for row in run_query("select distinct concat('v', " ~ key ~ ') as spec from (' ~ partitions ~ ') where buckets is not null order by spec').rows -%}
    {%- set parts = fromjson(row[0][1:]) -%}
    {%- do groups.append({'buckets': parts[0] | int, 'clustered_by': fromjson(parts[1]), 'sorted_by': fromjson(parts[2])}) -%}
    {%- do cases.append('when ' ~ spark_bucketing.string_literal(row[0][1:]) ~ ' then ' ~ loop.index0) -%}
  {%- endfor -%}
  {%- set spec = 'case ' ~ key ~ ' ' ~ cases | join(' ') ~ ' end' if cases else 'cast(null as int)' -%}
  {{ return({'groups': groups, 'sql': '(select *, ' ~ spec ~ ' as spec from (' ~ partitions ~ '))'}) }}
{%- endmacro %}
