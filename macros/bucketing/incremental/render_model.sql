{#-
  The model's SQL, rendered again with other answers than dbt had when it compiled it: is_incremental() as it really is
  (dbt's own knows only materialized='incremental'), and the inputs of one batch.

  batch: {start, end}, to read only this batch of each input that has an `event_time`; none for the whole inputs
-#}
{% macro render_model(incremental, batch=none) -%}
  {%- set answers = {
      'is_incremental': spark_bucketing.is_incremental,
      '__spark_bucketing_is_incremental': incremental,
  } -%}
  {%- if batch -%}
    {%- do answers.update({
        'ref': spark_bucketing.batch_ref,
        'source': spark_bucketing.batch_source,
        '__spark_bucketing_batch': batch,
        'model': dict(model, batch={'id': batch.start.isoformat(), 'event_time_start': batch.start, 'event_time_end': batch.end}),
    }) -%}
  {%- endif -%}
  {%- set sql = spark_bucketing.render_with(model.raw_code, answers) -%}
  {%- set ctes = model.extra_ctes | map(attribute='sql') | list -%}
  {%- if ctes -%}
    {%- set sql = 'with ' ~ ctes | join(', ') ~ '\nselect * from (\n' ~ sql ~ '\n)' -%}
  {%- endif -%}
  {{ return(sql) }}
{%- endmacro %}


{#- SQL rendered with other names in its context, which is as before afterwards. -#}
{% macro render_with(raw_code, names) -%}
  {%- set originals = {} -%}
  {%- for name in names if name in context -%}
    {%- do originals.update({name: context[name]}) -%}
  {%- endfor -%}
  {%- do context.update(names) -%}
  {%- set sql = render(raw_code) -%}
  {%- for name in names -%}
    {%- do context.pop(name) -%}
  {%- endfor -%}
  {%- do context.update(originals) -%}
  {{ return(sql) }}
{%- endmacro %}
