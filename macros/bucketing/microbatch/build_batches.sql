{#- First run of a microbatch model: all batches go into one table beside the existing one, which is then swapped in. -#}
{% macro build_batches(relation, layout, existing) -%}
  {%- set tmp = spark_bucketing.sibling(relation, 'tmp') -%}
  {%- set batches = spark_bucketing.microbatches(incremental=false) -%}
  {%- for batch in batches -%}
    {% do spark_bucketing.log_batch(relation, batch, loop) %}
    {%- set source = spark_bucketing.model_source(spark_bucketing.render_model(false, batch)) -%}
    {%- set columns = spark_bucketing.query_columns(source) -%}
    {%- set resolved = spark_bucketing.resolve_layout(layout, columns) -%}
    {%- if loop.first -%}
      {% do spark_bucketing.create_bucketed_table(tmp, columns, resolved) %}
    {%- endif -%}
    {% do spark_bucketing.insert_bucketed(tmp, source, columns, resolved) %}
  {%- endfor -%}
  {% do spark_bucketing.validate_partitions_of_batches(tmp, layout) %}
  {% do spark_bucketing.verify_buckets(tmp, layout) %}
  {% do spark_bucketing.mark_written(tmp, layout) %}
  {% do spark_bucketing.replace_relation(tmp, relation, existing) %}
{%- endmacro %}
