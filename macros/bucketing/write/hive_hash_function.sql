{#-
  Returns the name of a SQL function that computes Hive's version 1 hash of its arguments.

  Uses hive_hash of the session extension if the extension is loaded. Otherwise, creates a temporary function for Hive's UDF, which every Spark with
  Hive support contains. bucket_id() prepares the arguments for either function.
-#}
{% macro hive_hash_function() -%}
  {%- if spark_bucketing.is_extensions_function('hive_hash', 'HiveHashOf') -%}
    {{ return('hive_hash') }}
  {%- endif -%}
  {%- set name = 'spark_bucketing_hive_hash' -%}
  {% do spark_bucketing.execute_sql("create or replace temporary function " ~ name ~ " as 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFHash'") %}
  {{ return(name) }}
{%- endmacro %}


{#- Returns whether a function belongs to the session extension; users can define a function with the same name. Queries this once per run. -#}
{% macro is_extensions_function(name, class) -%}
  {%- set cache = spark_bucketing.run_cache() -%}
  {%- if name not in cache -%}
    {%- set known = run_query("show user functions like '" ~ name ~ "'").rows -%}
    {%- do cache.update({name: run_query('describe function ' ~ name).columns[0].values() | list if known else []}) -%}
    {% do spark_bucketing.warn_about_version_mismatch(cache[name]) %}
  {%- endif -%}
  {{ return(modules.re.search('Class: org[.]apache[.]spark[.]sql[.]bucketing[.](?:[a-z]+[.])?' ~ class, cache[name] | join('\n')) is not none) }}
{%- endmacro %}
