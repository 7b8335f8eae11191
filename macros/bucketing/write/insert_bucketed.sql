{#-
  INSERT that writes exactly one file for each bucket (of each partition) that has rows.

  The hint wraps a subquery, since on a UNION it would bind to the first branch only; bucket and partition columns have
  the table's types below it, since the table's hash and the shuffle's must be taken of the same value. The session extension
  does all of that itself.

  relation: the bucketed table
  source: SQL of a relation or of a query in parentheses
  columns: list of {name, type, expression} of the table; expression is the SQL over the source that gives the column
  layout: from resolve_layout()
  overwrite: replace the partitions that the source has rows for
-#}
{% macro insert_bucketed(relation, source, columns, layout, overwrite=false) -%}
  {%- set ordered = spark_bucketing.order_columns(columns, layout.partition_by) -%}
  {%- set names = ordered | map(attribute='name') | list -%}
  {%- set distributed = spark_bucketing.distributes_writes(layout) -%}
  {%- set hive_hash = spark_bucketing.hive_hash_function() if layout.bucket_hash == 'hive' and not distributed else none -%}
  {%- set bucket = spark_bucketing.bucket_id(spark_bucketing.columns_named(columns, layout.clustered_by), layout.buckets, layout.bucket_hash, hive_hash) -%}
  {%- set tasks = spark_bucketing.write_tasks(layout) -%}
  {%- if not distributed and spark_bucketing.quote_relation(relation) not in context.get('__spark_bucketing_made', {}) -%}
    {#- A SELECT on a Hive-layout table leaves a relation without buckets in Spark's cache, and the next INSERT would use it. -#}
    {% do spark_bucketing.execute_sql('refresh table ' ~ spark_bucketing.quote_relation(relation)) %}
  {%- endif -%}
  {%- set insert = spark_bucketing.insert_clause(relation, layout, overwrite) -%}
  {% call statement('main') -%}
    {{ insert }}
    {%- if distributed %}
    select {{ spark_bucketing.select_list(ordered, layout.partition_by) }}
    from {{ source }}
    {%- else %}
    select /*+ repartition({{ tasks }}, `__spark_bucketing_key`) */ {{ spark_bucketing.quote_columns(names) }}
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


{#- Whether the session extension spreads the rows of an INSERT: one task for each bucket, of each partition as many as the session shuffles with. -#}
{% macro distributes_writes(layout) -%}
  {%- set setting = spark_bucketing.session_settings().get('spark.bucketing.write.distribute') -%}
  {{ return(spark_bucketing.extension_enabled() and not layout.write_tasks and (setting is none or setting[1] | lower == 'true')) }}
{%- endmacro %}
