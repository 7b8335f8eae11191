{#- INSERT INTO or OVERWRITE, up to the query; of partitions no more is overwritten than the query has rows for. -#}
{% macro insert_clause(relation, layout, overwrite) -%}
  {%- set dynamic = overwrite and layout.bucket_hash == 'spark' and spark_bucketing.needs_dynamic_option(relation) -%}
  insert {{ 'overwrite' if overwrite else 'into' }} table {{ spark_bucketing.quote_relation(relation) }}
  {%- if dynamic %}
  with ('partitionOverwriteMode' = 'dynamic')
  {%- endif %}
  {%- if layout.partition_by %}
  partition ({{ spark_bucketing.quote_columns(layout.partition_by) }})
  {%- endif %}
{%- endmacro %}


{#-
  Whether an INSERT OVERWRITE has to say that it replaces no more than the partitions that it has rows for. Before Spark 4.0 it cannot, and
  a setting of the session would be there for other statements, and stay when one fails: so the table says it, by its own option. That is
  what the Hive layout does always. Spark refuses to be told twice.
-#}
{% macro needs_dynamic_option(relation) -%}
  {%- set told = spark_bucketing.table_layout(relation).overwrites_dynamically -%}
  {%- if not told and not spark_bucketing.has_query_options() -%}
    {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ " set serdeproperties ('partitionOverwriteMode' = 'dynamic')") %}
    {%- set told = true -%}
  {%- endif -%}
  {{ return(not told) }}
{%- endmacro %}
