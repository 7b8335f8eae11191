{#-
  Seals what is not sealed, for a hook or for `dbt run-operation`. What is refused is read plainly, which a warning says. Nothing is left
  to send: it returns no SQL.

  relation: a relation, or the name of a table as text
  where: predicate on the partition columns; none for all partitions
-#}
{% macro seal_buckets(relation, where=none) -%}
  {%- if execute -%}
    {%- set table = relation if relation is string else spark_bucketing.quote_relation(relation) -%}
    {%- set missing = spark_bucketing.missing_bucket_specs() -%}
    {%- if missing -%}
      {% do exceptions.raise_compiler_error('The buckets of ' ~ relation ~ ' cannot be sealed.\n  found:    ' ~ missing.found
          ~ '\n  expected: the session extension, whose statement it is\n  instead:  ' ~ missing.instead) %}
    {%- endif -%}
    {%- set statement = 'alter table ' ~ table ~ ' seal buckets' ~ (' where ' ~ where ~ '\n' if where else '') -%}
    {%- for row in run_query(statement).rows -%}
      {%- set what = relation ~ (' ' ~ row['partition'] if row['partition'] else '') -%}
      {%- if row['status'] == 'refused' -%}
        {% do exceptions.warn('Not sealed: ' ~ what ~ ': ' ~ row['problem'] ~ '. It is read plainly.') %}
      {%- else -%}
        {% do log(row['status'] ~ ': ' ~ what, info=row['status'] == 'sealed') %}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
{%- endmacro %}
