{#-
  Returns INSERT INTO or INSERT OVERWRITE with the table, without the query. INSERT OVERWRITE replaces only partitions for which the query returns
  rows.
-#}
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
  Returns whether an INSERT OVERWRITE needs the option for dynamic partition overwrite. Spark rejects the option in a statement if the table also has
  it.

  Before Spark 4.0, a statement cannot have options, so the option is set on the table. A session setting would also affect other statements, and
  would persist after a failure. In the Hive layout, overwrites are always dynamic.
-#}
{% macro needs_dynamic_option(relation) -%}
  {%- set is_set = spark_bucketing.table_layout(relation).overwrites_dynamically -%}
  {%- if not is_set and not spark_bucketing.has_query_options() -%}
    {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ " set serdeproperties ('partitionOverwriteMode' = 'dynamic')") %}
    {%- set is_set = true -%}
  {%- endif -%}
  {{ return(not is_set) }}
{%- endmacro %}
