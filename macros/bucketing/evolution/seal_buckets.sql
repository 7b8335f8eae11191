{#-
  Seals the unsealed files of a table. Call this macro in a hook or with `dbt run-operation`. The macro warns about partitions that Spark cannot seal.

  The macro runs the statement itself instead of returning SQL.

  relation: relation, or string with the name of a table
  where: string, predicate on the partition columns, or none for all partitions
-#}
{% macro seal_buckets(relation, where=none) -%}
  {%- if execute -%}
    {%- set table = relation if relation is string else spark_bucketing.quote_relation(relation) -%}
    {%- set missing = spark_bucketing.missing_bucket_specs() -%}
    {%- if missing -%}
      {% do exceptions.raise_compiler_error(spark_bucketing.error_message('The files of table `' ~ relation ~ '` cannot be sealed.', missing.found,
          'the session extension, which adds the statement SEAL BUCKETS', missing.instead)) %}
    {%- endif -%}
    {%- set statement = 'alter table ' ~ table ~ ' seal buckets' ~ (' where ' ~ where ~ '\n' if where else '') -%}
    {%- for row in run_query(statement).rows -%}
      {%- set name = relation ~ (' ' ~ row['partition'] if row['partition'] else '') -%}
      {%- if row['status'] == 'refused' -%}
        {% do exceptions.warn(name ~ ' was not sealed: ' ~ row['problem'] ~ '. Spark ignores its buckets.') %}
      {%- else -%}
        {% do log(row['status'] ~ ': ' ~ name ~ (' (' ~ row['problem'] ~ ')' if row['problem'] else ''), info=row['status'] == 'sealed') %}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
{%- endmacro %}
