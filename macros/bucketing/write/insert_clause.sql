{#-
  Returns INSERT INTO or INSERT OVERWRITE with the table, without the query. INSERT OVERWRITE replaces only partitions for which the query returns
  rows.

  In the Spark layout, this requires an option of the table or of the statement. Spark rejects the option in a statement if the table also has it.
  Before Spark 4.0, a statement cannot have options, so the macro sets the option on the table. A session setting would also affect other statements,
  and would persist after a failure.
-#}
{% macro insert_clause(relation, layout, overwrite) -%}
  {%- set table = spark_bucketing.quote_relation(relation) -%}
  {%- set is_set = not overwrite or layout.bucket_hash != 'spark' or spark_bucketing.table_layout(relation).overwrites_dynamically -%}
  {%- if not is_set and not spark_bucketing.has_query_options() -%}
    {% do spark_bucketing.execute_sql('alter table ' ~ table ~ " set serdeproperties ('partitionOverwriteMode' = 'dynamic')") %}
    {%- set is_set = true -%}
  {%- endif -%}
  insert {{ 'overwrite' if overwrite else 'into' }} table {{ table }}
  {%- if not is_set %}
  with ('partitionOverwriteMode' = 'dynamic')
  {%- endif %}
  {%- if layout.partition_by %}
  partition ({{ spark_bucketing.quote_columns(layout.partition_by) }})
  {%- endif %}
{%- endmacro %}
