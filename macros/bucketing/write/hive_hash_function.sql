{#-
  Name of a SQL function that computes Hive's version 1 hash of its arguments: the session extension's hive_hash, where it
  is loaded, otherwise Hive's own UDF, which comes with every Spark that has Hive support. A temporary function is seen
  by this session only. bucket_id() knows what each of them may be given.
-#}
{% macro hive_hash_function() -%}
  {%- if run_query("show user functions like 'hive_hash'").rows -%}
    {#- A function of the user's own may have that name. -#}
    {%- set description = run_query('describe function hive_hash').columns[0].values() -%}
    {%- if 'Class: org.apache.spark.sql.bucketing.HiveHashOf' in description -%}
      {{ return('hive_hash') }}
    {%- endif -%}
  {%- endif -%}
  {%- set name = 'spark_bucketing_hive_hash' -%}
  {% do spark_bucketing.execute_sql("create or replace temporary function " ~ name ~ " as 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFHash'") %}
  {{ return(name) }}
{%- endmacro %}
