{#-
  Raises an error if a batch would overwrite rows of other batches. A batch always replaces whole partitions.

  rows: string, SQL from aligned_rows()
  input: relation that contains the batch's rows, from load_input()
-#}
{% macro validate_batch(rows, input, columns, layout, batch) -%}
  {%- if not spark_bucketing.has_event_time(columns) -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set touched = spark_bucketing.partition_values(layout.partition_by, spark_bucketing.quote_relation(input)) -%}
  {%- set lost -%}
    select {{ spark_bucketing.quote_columns(layout.partition_by) }}, count(*) from {{ rows }}
    where {{ spark_bucketing.partition_predicate(spark_bucketing.columns_named(columns, layout.partition_by), touched) }}
      and not ({{ spark_bucketing.batch_condition(config.get('event_time'), batch) }})
    group by {{ spark_bucketing.quote_columns(layout.partition_by) }} limit 1
  {%- endset -%}
  {%- set found = run_query(lost).rows -%}
  {%- if found | length > 0 -%}
    {%- set values = found[0].values() | list -%}
    {% do exceptions.raise_compiler_error(spark_bucketing.coarse_partition_error(
        'the partition ' ~ values[:-1] | join(', ') ~ ' has ' ~ values[-1] ~ ' row(s) outside the batch from ' ~ batch.start ~ ' to ' ~ batch.end, layout)) %}
  {%- endif -%}
{%- endmacro %}
