{#-
  Returns the batches that may have rows, or only the first batch if none has rows. Logs how many batches are skipped.

  A batch has no rows if two conditions are true. First, no input with an `event_time` has rows in the batch. The macro tests this with one query per
  input. Second, the model returns no rows if its inputs are empty. Spark's optimizer must be able to prove this. For example, `select count(*) from
  events` always returns a row.

  batches: list, from microbatches()
  incremental: bool, the value that is_incremental() returns in the model
-#}
{% macro batches_with_rows(batches, incremental) -%}
  {%- set inputs = spark_bucketing.inputs_of_batches() -%}
  {%- if batches | length == 1 or not inputs -%}
    {{ return(batches) }}
  {%- endif -%}
  {%- set filled = [] -%}
  {%- for input in inputs -%}
    {%- set starts = spark_bucketing.filled_batches(input, {'start': batches[0].start, 'end': batches[-1].end}) -%}
    {%- if starts is none -%}
      {{ return(batches) }}
    {%- endif -%}
    {%- do filled.extend(starts) -%}
  {%- endfor -%}
  {%- set filled = dict.fromkeys(filled) -%}
  {%- set proofs = {} -%}
  {%- set chosen = [] -%}
  {%- for batch in batches -%}
    {%- if batch.start in filled or not spark_bucketing.has_no_rows(spark_bucketing.render_model(incremental, dict(batch, empty=true)), proofs) -%}
      {%- do chosen.append(batch) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- if chosen | length < batches | length -%}
    {% do log((batches | length - chosen | length) ~ ' of ' ~ batches | length ~ ' batches of ' ~ this ~ ' have no rows and are skipped.', info=true) %}
  {%- endif -%}
  {{ return(chosen or batches[:1]) }}
{%- endmacro %}


{#- Returns a list of {relation, event_time}: the inputs that the model reads in batches. -#}
{% macro inputs_of_batches() -%}
  {%- set inputs = [] -%}
  {%- for id in model.depends_on.nodes -%}
    {%- set node = graph.nodes.get(id) or graph.sources.get(id) -%}
    {%- if node and spark_bucketing.is_read_by_batches(node) -%}
      {%- set relation = builtins.source(node.source_name, node.name) if node.resource_type == 'source'
          else builtins.ref(node.package_name, node.name, v=node.get('version')) -%}
      {%- do inputs.append({'relation': relation, 'event_time': node.config.event_time}) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(inputs) }}
{%- endmacro %}


{#-
  Returns the start times of all batches in which some input has rows, and possibly of further batches. Returns none if SQL cannot compute the batch
  of a row because of the type of `event_time`.

  span: dict {start, end}, the time from the start of the first batch to the end of the last batch
-#}
{% macro filled_batches(input, span) -%}
  {%- set size = config.get('batch_size') | lower -%}
  {%- set time = spark_bucketing.event_time_sql(input.event_time) -%}
  {%- set type = spark_bucketing.query_columns('(select ' ~ time ~ ' from ' ~ input.relation ~ ')')[0].type -%}
  {%- if type not in ['timestamp', 'timestamp_ntz', 'date'] -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set hours = 1 if size == 'hour' and type == 'timestamp' else 24 -%}
  {%- set number = 'floor(unix_seconds(' ~ time ~ ') / ' ~ hours * 3600 ~ ')' if type == 'timestamp' else 'unix_date(cast(' ~ time ~ ' as date))' -%}
  {%- set query = 'select distinct ' ~ number ~ ' from ' ~ input.relation ~ ' where ' ~ spark_bucketing.batch_condition(input.event_time, span) -%}
  {%- set starts = [] -%}
  {%- for found in run_query(query).columns[0].values() -%}
    {%- set filled = modules.datetime.datetime(1970, 1, 1) + modules.datetime.timedelta(hours=found | int * hours) -%}
    {%- for offset in range(hours if size == 'hour' else 1) -%}
      {%- do starts.append(spark_bucketing.shift_batch(filled, size, offset)) -%}
    {%- endfor -%}
  {%- endfor -%}
  {{ return(starts) }}
{%- endmacro %}


{#-
  Returns whether Spark's optimizer can prove that a query returns no rows.

  proofs: dict, the cached results by query
-#}
{% macro has_no_rows(sql, proofs) -%}
  {%- if sql not in proofs -%}
    {%- set plan = run_query('explain select * from (\n' ~ spark_bucketing.without_semicolon(sql) ~ '\n)').columns[0].values() | join('\n') -%}
    {%- do proofs.update({sql: modules.re.match('== Physical Plan ==\\s*LocalTableScan <empty>', plan) is not none}) -%}
  {%- endif -%}
  {{ return(proofs[sql]) }}
{%- endmacro %}
