{#-
  Replaces the partitions that the source has rows for. Spark moves the finished files in only when all are written.

  A source that reads the table itself goes through a plain table first: in one statement with the INSERT, Spark would take
  the relation without buckets that the reading leaves in its cache, and write files without buckets.
-#}
{% macro overwrite_partitions(relation, source, columns, layout) -%}
  {%- set since = spark_bucketing.before_write() -%}
  {%- if spark_bucketing.reads_relation(source, relation) -%}
    {%- set input = spark_bucketing.load_input(relation, source, columns, layout) -%}
    {% do spark_bucketing.insert_bucketed(relation, spark_bucketing.quote_relation(input), spark_bucketing.without_expressions(columns), layout, overwrite=true) %}
    {% do spark_bucketing.drop_relation_with_files(input) %}
  {%- else -%}
    {% do spark_bucketing.insert_bucketed(relation, source, columns, layout, overwrite=true) %}
  {%- endif -%}
  {% do spark_bucketing.verify_buckets(relation, layout, since) %}
{%- endmacro %}
