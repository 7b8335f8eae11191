{#-
  Returns the name of a SQL function that computes Hive's hash of its arguments, or none if the session has no such function.

  If the session extension is loaded, this is the extension's function hive_hash or hive2_hash. Otherwise, the macro creates a temporary function from
  Hive's UDF for version 1, which every Spark with Hive support contains. Spark's built-in Hive has no UDF for bucketing version 2. bucket_id() prepares the
  arguments for either function.
-#}
{% macro hive_hash_function(bucket_hash='hive') -%}
  {%- set known = spark_bucketing.is_extensions_function(bucket_hash ~ '_hash', 'HiveHashOf') -%}
  {%- if known or not spark_bucketing.config_schema().hashes[bucket_hash].stock -%}
    {{ return(bucket_hash ~ '_hash' if known else none) }}
  {%- endif -%}
  {%- set name = 'spark_bucketing_hive_hash' -%}
  {% do spark_bucketing.execute_sql("create or replace temporary function " ~ name ~ " as 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFHash'") %}
  {{ return(name) }}
{%- endmacro %}


{#-
  Returns whether a function comes from the session extension, because users can define a function with the same name. The queries run once per dbt
  run.
-#}
{% macro is_extensions_function(name, class) -%}
  {%- set cache = spark_bucketing.run_cache() -%}
  {%- if name not in cache -%}
    {%- set known = run_query("show user functions like '" ~ name ~ "'").rows -%}
    {%- do cache.update({name: run_query('describe function ' ~ name).columns[0].values() | list if known else []}) -%}
    {% do spark_bucketing.warn_about_version_mismatch(cache[name]) %}
  {%- endif -%}
  {{ return(modules.re.search('Class: org[.]apache[.]spark[.]sql[.]bucketing[.](?:[a-z]+[.])?' ~ class, cache[name] | join('\n')) is not none) }}
{%- endmacro %}
