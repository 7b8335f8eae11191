{#- Returns the error for a partition with rows of several batches. -#}
{% macro coarse_partition_error(found, layout) -%}
  {{ return(spark_bucketing.config_error('partition_by', layout.partition_by | join(', ') ~ ": " ~ found,
      "only rows of one batch in each partition (batch_size='" ~ config.get('batch_size') ~ "', in UTC); a batch replaces whole partitions, so rows of other batches would be lost",
      'compute the partition column from to_utc_timestamp(' ~ spark_bucketing.event_time_sql(config.get('event_time'))
      ~ ', current_timezone()) if it is in local time; otherwise, use a finer partition column or a larger batch_size')) }}
{%- endmacro %}


{#-
  Returns a condition for the hint REPLACE_ONLY. It is true for rows of the batch and for a NULL `event_time`, and raises an error for rows of other
  batches. Returns none, and warns, if the table has no `event_time` column.
-#}
{% macro only_rows_of_batch(columns, layout, batch) -%}
  {%- if not spark_bucketing.has_event_time(columns) -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set error = spark_bucketing.coarse_partition_error(
      'the partition {partition} has rows outside the batch from ' ~ batch.start ~ ' to ' ~ batch.end, layout) -%}
  {%- set partition = "concat_ws(', ', " ~ spark_bucketing.quote_columns(layout.partition_by, 'cast(%s as string)') ~ ')' -%}
  {{ return('if(coalesce(' ~ spark_bucketing.batch_condition(config.get('event_time'), batch) ~ ', true), true, raise_error(replace('
      ~ spark_bucketing.string_literal(error) ~ ", '{partition}', " ~ partition ~ ')) is null)') }}
{%- endmacro %}


{#- Returns whether the table of a microbatch model has the column `event_time`. Otherwise, warns. -#}
{% macro has_event_time(columns) -%}
  {%- set event_time = config.get('event_time') -%}
  {%- if event_time | lower in columns | map(attribute='name') | map('lower') | list -%}
    {{ return(true) }}
  {%- endif -%}
  {% do exceptions.warn("Model `" ~ model.name ~ "` does not select its `event_time` column " ~ event_time ~ '.'
      ~ ' The run cannot check whether it overwrites rows of other batches.') %}
  {{ return(false) }}
{%- endmacro %}
