{#-
  Builds an intermediate table, verifies it, and then replaces the whole table with it.

  sources: list of relations or queries in parentheses, as SQL, which are written one after another
  columns: list of {name, type[, expression]}
  existing: dict, table_layout() of the table to replace, or none
  batches: list that contains the microbatch of each source, or none for each source of a model without batches
-#}
{% macro build_table(relation, sources, columns, layout, existing, batches=[none]) -%}
  {%- set tmp = spark_bucketing.intermediate_relation(relation, 'tmp') -%}
  {% do spark_bucketing.warn_about_small_files(sources, layout) %}
  {% do spark_bucketing.drop_relation_with_files(tmp) %}
  {% do spark_bucketing.execute_sql(spark_bucketing.bucketed_table_ddl(tmp, columns, layout)) %}
  {%- for source in sources -%}
    {% do spark_bucketing.log_batch(relation, batches[loop.index0], loop) %}
    {% do spark_bucketing.insert_bucketed(tmp, source, columns, layout) %}
  {%- endfor -%}
  {%- if batches[0] -%}
    {% do spark_bucketing.validate_batch_partitions(tmp, layout) %}
  {%- endif -%}
  {% do spark_bucketing.verify_buckets(tmp, layout, build=context['__spark_bucketing_build']) %}
  {%- if layout.partition_by or not spark_bucketing.extension_enabled() -%}
    {#- If an unpartitioned table is sealed, verify_buckets() has already checked that it has this build's id. -#}
    {% do spark_bucketing.mark_written(tmp) %}
    {% do spark_bucketing.validate_build(tmp, spark_bucketing.found_build(tmp), context['__spark_bucketing_build']) %}
  {%- endif -%}
  {% do spark_bucketing.swap_relations(tmp, relation, existing) %}
{%- endmacro %}
