{#-
  Name of a SQL function that computes Hive's version 1 hash of its arguments. Hive's own UDF comes with every Spark
  that has Hive support; a temporary function is seen by this session only.
-#}
{% macro hive_hash_function() -%}
  {%- set name = 'spark_bucketing_hive_hash' -%}
  {% do spark_bucketing.execute_sql("create or replace temporary function " ~ name ~ " as 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFHash'") %}
  {{ return(name) }}
{%- endmacro %}
