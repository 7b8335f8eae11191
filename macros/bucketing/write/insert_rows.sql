{#-
  Inserts rows so that each bucket that has rows gets exactly one file in each partition, or so that an organized table gets the configured files.

  The SELECT with the hint reads from a subquery, because in a UNION, the hint would apply only to the first branch. In this subquery, bucket and
  partition columns already have the table's types, so that the shuffle and the writer hash the same values. With the session extension, Spark itself
  distributes the rows.

  relation: relation of the table
  source: string, SQL of a relation or of a query in parentheses
  columns: list of {name, type, expression} for the table's columns; `expression` is SQL that refers to the source's columns
  layout: dict, from resolve_layout()
  overwrite: string, 'dynamic' to replace the partitions for which the source has rows, or 'static' to replace all rows; none to add rows
  replace_only: string, SQL condition that the replaced rows must meet, or none. Only the session extension checks it.
-#}
{% macro insert_rows(relation, source, columns, layout, overwrite=none, replace_only=none) -%}
  {%- set ordered = spark_bucketing.order_columns(columns, layout.partition_by) -%}
  {%- set names = ordered | map(attribute='name') | list -%}
  {%- set distributed = spark_bucketing.distributes_writes(layout) -%}
  {%- set hive_hash = spark_bucketing.hive_hash_function(layout.bucket_hash) if layout.bucket_hash != 'spark' and not distributed else none -%}
  {%- set hints = (["partition_overwrite_mode('static')"] if overwrite == 'static' else [])
      + (['replace_only(' ~ spark_bucketing.string_literal(replace_only) ~ ')'] if replace_only else []) -%}
  {%- if not distributed and spark_bucketing.quote_relation(relation) not in context.get('__spark_bucketing_made', {}) -%}
    {#- A SELECT from a table in the Hive layout makes Spark cache a relation without buckets, which the next INSERT would use. -#}
    {% do spark_bucketing.execute_sql('refresh table ' ~ spark_bucketing.quote_relation(relation)) %}
  {%- endif -%}
  {%- set insert = spark_bucketing.insert_clause(relation, layout, overwrite) -%}
  {% call statement('main') -%}
    {{ insert }}
    {%- if distributed %}
    select {{ '/*+ ' ~ hints | join(', ') ~ ' */ ' if hints }}{{ spark_bucketing.select_list(ordered, layout.partition_by) }}
    from {{ source }}
    {%- else %}
    {%- set bucket = spark_bucketing.bucket_id(spark_bucketing.columns_named(columns, layout.clustered_by), layout.buckets, layout.bucket_hash, hive_hash) -%}
    {%- set tasks = spark_bucketing.write_tasks(layout) %}
    select /*+ {{ (['repartition(' ~ tasks ~ ', `__spark_bucketing_key`)'] + hints) | join(', ') }} */ {{ spark_bucketing.quote_columns(names) }}
    from (
      select
        *,
        get(({{ spark_bucketing.shuffle_keys(tasks) }}), cast({{ spark_bucketing.task_of_row(bucket, layout.partition_by, tasks) }} as int)) as `__spark_bucketing_key`
      from (
        select {{ spark_bucketing.select_list(ordered, layout.partition_by) }}
        from {{ source }}
      )
    )
    {%- endif %}
  {%- endcall %}
{%- endmacro %}


{#- Returns whether the session extension distributes the rows of an INSERT over tasks. -#}
{% macro distributes_writes(layout) -%}
  {%- set setting = spark_bucketing.session_settings().get('spark.bucketing.write.distribute') -%}
  {{ return(spark_bucketing.extension_enabled() and not layout.write_tasks and (setting is none or setting[1] | lower == 'true')) }}
{%- endmacro %}
