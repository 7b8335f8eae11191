{#-
  Returns the batches that may have rows, or only the first batch if none has rows. Logs how many batches are skipped.

  A batch has no rows if two conditions are true. First, no input with an `event_time` has rows in the batch. The macro tests this with one query per
  input. Second, the model returns no rows if its inputs are empty. Spark's optimizer must be able to prove this. For example, `select count(*) from
  events` always returns a row.

  batches: list, from microbatches()
  incremental: bool, the value that is_incremental() returns in the model
-#}
{% macro batches_with_rows(batches, incremental) -%}
  {%- if batches | length == 1 -%}
    {{ return(batches) }}
  {%- endif -%}
  {%- set span = {'start': batches[0].start, 'end': batches[-1].end} -%}
  {%- set filled = {} -%}
  {%- set unfilled = {} -%}
  {%- set texts = {} -%}
  {%- for batch in batches -%}
    {%- set inputs = [] -%}
    {%- set sql = spark_bucketing.render_model(incremental, dict(batch, inputs=inputs, span=span)) -%}
    {%- if inputs and not spark_bucketing.is_filled(batch, inputs, filled) -%}
      {#- Most batches have the same SQL, which is stored once. -#}
      {%- do unfilled.update({batch.start: texts.setdefault(sql, sql)}) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- set without_rows = spark_bucketing.queries_without_rows(texts | list) -%}
  {%- set chosen = [] -%}
  {%- for batch in batches if unfilled.get(batch.start) not in without_rows -%}
    {%- do chosen.append(batch) -%}
  {%- endfor -%}
  {%- if not chosen -%}
    {% do log('None of the ' ~ batches | length ~ ' batches of ' ~ this ~ ' has rows. Only the first batch runs, so that the model is checked.', info=true) %}
  {%- elif chosen | length < batches | length -%}
    {% do log((batches | length - chosen | length) ~ ' of ' ~ batches | length ~ ' batches of ' ~ this ~ ' have no rows and are skipped.', info=true) %}
  {%- endif -%}
  {{ return(chosen or batches[:1]) }}
{%- endmacro %}


{#-
  Returns whether an input may have rows in the batch.

  inputs: list of relations, filtered to the time of all batches
  filled: dict, the cached results of filled_batches() by SQL of the input
-#}
{% macro is_filled(batch, inputs, filled) -%}
  {%- for input in inputs -%}
    {%- if input | string not in filled -%}
      {%- do filled.update({input | string: spark_bucketing.filled_batches(input)}) -%}
    {%- endif -%}
    {%- set starts = filled[input | string] -%}
    {%- if starts is none or batch.start in starts -%}
      {{ return(true) }}
    {%- endif -%}
  {%- endfor -%}
  {{ return(false) }}
{%- endmacro %}


{#-
  Returns the start times of all batches in which the input has rows, and possibly of further batches, as the keys of a dict. Returns none if SQL
  cannot compute the batch of a row because of the type of `event_time`.
-#}
{% macro filled_batches(input) -%}
  {%- set size = config.get('batch_size') | lower -%}
  {%- set rows = '(' ~ spark_bucketing.with_ephemeral_models('select ' ~ input.event_time_filter.field_name ~ ' as event_time from ' ~ input) ~ ')' -%}
  {%- set type = spark_bucketing.query_columns(rows)[0].type -%}
  {%- if type not in ['timestamp', 'timestamp_ntz', 'date'] -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set hours = 1 if size == 'hour' and type == 'timestamp' else 24 -%}
  {%- set number = 'floor(unix_seconds(event_time) / ' ~ hours * 3600 ~ ')' if type == 'timestamp' else 'unix_date(cast(event_time as date))' -%}
  {%- set starts = {} -%}
  {%- for found in run_query('select distinct ' ~ number ~ ' from ' ~ rows).columns[0].values() -%}
    {%- set filled = modules.datetime.datetime(1970, 1, 1) + modules.datetime.timedelta(hours=found | int * hours) -%}
    {%- for offset in range(hours if size == 'hour' else 1) -%}
      {%- do starts.update({spark_bucketing.shift_batch(filled, size, offset): true}) -%}
    {%- endfor -%}
  {%- endfor -%}
  {{ return(starts) }}
{%- endmacro %}


{#-
  Returns the queries of which Spark's optimizer can prove that they return no rows, as the keys of a dict. SQL that contains the time of its batch
  differs in every batch, so many queries are planned together.
-#}
{% macro queries_without_rows(queries) -%}
  {%- set found = {} -%}
  {%- for several in queries | batch(50) -%}
    {%- set proven = spark_bucketing.has_no_rows(several) -%}
    {%- for sql in several if proven or (several | length > 1 and spark_bucketing.has_no_rows([sql])) -%}
      {%- do found.update({sql: true}) -%}
    {%- endfor -%}
  {%- endfor -%}
  {{ return(found) }}
{%- endmacro %}


{#- Returns whether Spark's optimizer can prove that none of the queries returns a row. -#}
{% macro has_no_rows(queries) -%}
  {%- set parts = [] -%}
  {%- for sql in queries -%}
    {%- do parts.append('select 1 from (\n' ~ spark_bucketing.without_semicolon(sql) ~ '\n)') -%}
  {%- endfor -%}
  {%- set plan = run_query('explain ' ~ parts | join('\nunion all\n')).columns[0].values() | join('\n') -%}
  {{ return(modules.re.match('== Physical Plan ==\\s*LocalTableScan <empty>', plan) is not none) }}
{%- endmacro %}
