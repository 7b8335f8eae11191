{#-
  Drops tables that this run has made, or has finished with, in their order.

  if_sealed: drops them only if all files of this table are sealed, one for each bucket, which one script finds out and does, where there are scripts
  Returns whether they were dropped.
-#}
{% macro drop_tables(relations, if_sealed=none) -%}
  {%- set drops = [] -%}
  {%- for relation in relations -%}
    {%- do drops.append('drop table if exists ' ~ spark_bucketing.quote_relation(relation)) -%}
  {%- endfor -%}
  {%- set by_script = if_sealed and spark_bucketing.has_scripts() -%}
  {%- if if_sealed and not by_script and run_query(spark_bucketing.unsealed_sql(if_sealed) ~ ' limit 1').rows -%}
    {{ return(false) }}
  {%- elif by_script -%}
    {%- set script -%}
      begin
        if (select 1 from ({{ spark_bucketing.unsealed_sql(if_sealed) }}) limit 1) is null
        then {{ drops | join('; ') }}; select true as `dropped`; else select false as `dropped`; end if;
      end
    {%- endset -%}
    {%- if run_query(script).rows[0][0] | string | lower != 'true' -%}
      {{ return(false) }}
    {%- endif -%}
  {%- endif -%}
  {%- for relation in relations -%}
    {%- if not by_script -%}
      {% do spark_bucketing.execute_sql(drops[loop.index0]) %}
    {%- endif -%}
    {% do spark_bucketing.forget_made(relation) %}
  {%- endfor -%}
  {{ return(true) }}
{%- endmacro %}


{#- A relation that this run has dropped is known not to be there. -#}
{% macro forget_made(relation) -%}
  {%- do context.get('__spark_bucketing_made', {}).pop(spark_bucketing.quote_relation(relation), none) -%}
  {%- do context.setdefault('__spark_bucketing_relations', {}).update({relation.schema ~ '.' ~ relation.identifier | lower: false}) -%}
{%- endmacro %}
