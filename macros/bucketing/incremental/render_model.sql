{#-
  Renders the model's SQL again with the correct is_incremental() and the inputs of one batch. When dbt compiles a model, its
  is_incremental() supports only materialized='incremental'.

  batch: dict {start, end}, to read only this batch of each input with an `event_time`; none to read the whole inputs
-#}
{% macro render_model(incremental, batch=none) -%}
  {%- set names = {
      'is_incremental': spark_bucketing.is_incremental,
      '__spark_bucketing_is_incremental': incremental,
  } -%}
  {%- if batch -%}
    {%- do names.update({
        'ref': spark_bucketing.batch_ref,
        'source': spark_bucketing.batch_source,
        '__spark_bucketing_batch': batch,
        'model': dict(model, batch={'id': batch.start.isoformat(), 'event_time_start': batch.start, 'event_time_end': batch.end}),
    }) -%}
  {%- endif -%}
  {%- set sql = spark_bucketing.render_with(model.raw_code, names) -%}
  {%- set ctes = model.extra_ctes | map(attribute='sql') | list -%}
  {%- if ctes -%}
    {%- set sql = 'with ' ~ ctes | join(', ') ~ '\nselect * from (\n' ~ sql ~ '\n)' -%}
  {%- endif -%}
  {{ return(sql) }}
{%- endmacro %}


{#- Renders SQL with other names in its context, and restores the context. -#}
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
