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
        'builtins': dict(builtins, ref=spark_bucketing.batch_ref, source=spark_bucketing.batch_source),
        '__spark_bucketing_builtins': builtins,
        '__spark_bucketing_batch': batch,
        'model': dict(model, batch=spark_bucketing.batch_context(batch)),
    }) -%}
    {#- A project may replace ref() and source() by macros, which call those of `builtins`. -#}
    {%- for name in ['ref', 'source'] if context[name] is sameas builtins[name] -%}
      {%- do names.update({name: names.builtins[name]}) -%}
    {%- endfor -%}
  {%- endif -%}
  {{ return(spark_bucketing.with_ephemeral_models(spark_bucketing.render_with(model.raw_code, names))) }}
{%- endmacro %}


{#- Adds the CTEs of the ephemeral models that the model reads to SQL. -#}
{% macro with_ephemeral_models(sql) -%}
  {%- set ctes = model.extra_ctes | map(attribute='sql') | list -%}
  {{ return('with ' ~ ctes | join(', ') ~ '\nselect * from (\n' ~ sql ~ '\n)' if ctes else sql) }}
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
