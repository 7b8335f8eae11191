{#-
  Builds the whole table, beside the existing one, and swaps it in when it is complete and verified.

  sources: SQL of a relation or of a query in parentheses, or of several, which are written one after the other
  columns: list of {name, type[, expression]}
  existing: table_layout() of what is to be replaced, or none
  batches: the microbatches that the sources are, or none
-#}
{% macro build_table(relation, sources, columns, layout, existing, batches=[none]) -%}
  {%- set tmp = spark_bucketing.intermediate_relation(relation, 'tmp') -%}
  {% do spark_bucketing.warn_about_small_files(sources, layout) %}
  {% do spark_bucketing.create_bucketed_table(tmp, columns, layout) %}
  {%- for source in sources -%}
    {% do spark_bucketing.log_batch(relation, batches[loop.index0], loop) %}
    {% do spark_bucketing.insert_bucketed(tmp, source, columns, layout) %}
  {%- endfor -%}
  {%- if batches[0] -%}
    {% do spark_bucketing.validate_batch_partitions(tmp, layout) %}
  {%- endif -%}
  {% do spark_bucketing.verify_buckets(tmp, layout, build=context['__spark_bucketing_build']) %}
  {%- if layout.partition_by or not spark_bucketing.extension_enabled() -%}
    {#- Of a table without partitions, its seal has told all of this. -#}
    {% do spark_bucketing.mark_written(tmp) %}
    {% do spark_bucketing.validate_build(tmp, spark_bucketing.found_build(tmp), context['__spark_bucketing_build']) %}
  {%- endif -%}
  {% do spark_bucketing.swap_relations(tmp, relation, existing) %}
{%- endmacro %}
