{#-
  Raises an error if a batch would overwrite rows of other batches. A batch always replaces whole partitions.

  rows: string, SQL from aligned_rows()
  input: relation that contains the batch's rows, from load_input()
-#}
{% macro validate_batch(rows, input, columns, layout, batch) -%}
  {%- set event_time = config.get('event_time') -%}
  {%- if event_time | lower not in columns | map(attribute='name') | map('lower') | list -%}
    {% do exceptions.warn("Model `" ~ model.name ~ "` does not select its `event_time` column " ~ event_time ~ '.'
        ~ ' The run cannot check whether it overwrites rows of other batches.') %}
    {{ return(none) }}
  {%- endif -%}
  {%- set touched = spark_bucketing.partition_values(layout.partition_by, spark_bucketing.quote_relation(input)) -%}
  {%- set lost -%}
    select {{ spark_bucketing.quote_columns(layout.partition_by) }}, count(*) from {{ rows }}
    where {{ spark_bucketing.partition_predicate(spark_bucketing.columns_named(columns, layout.partition_by), touched) }}
      and not ({{ spark_bucketing.batch_condition(event_time, batch) }})
    group by {{ spark_bucketing.quote_columns(layout.partition_by) }} limit 1
  {%- endset -%}
  {%- set found = run_query(lost).rows -%}
  {%- if found | length > 0 -%}
    {%- set values = found[0].values() | list -%}
    {% do spark_bucketing.raise_coarse_partition(
        'the partition ' ~ values[:-1] | join(', ') ~ ' has ' ~ values[-1] ~ ' row(s) outside the batch from ' ~ batch.start ~ ' to ' ~ batch.end, layout) %}
  {%- endif -%}
{%- endmacro %}
