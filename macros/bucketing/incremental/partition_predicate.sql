{#-
  Returns a condition on literals that selects these partitions, so that Spark prunes at planning time. It is never NULL.

  Spark pushes up to 100 simple values of one column down to the metastore. Metastore filters cannot contain quotes or backslashes, and
  fail for about a thousand values. Spark evaluates comparisons of arrays itself, and treats NULLs in them as equal.

  partition_columns: list of {name, type}
  partitions: list of lists, from partition_values()
-#}
{% macro partition_predicate(partition_columns, partitions) -%}
  {%- set state = namespace(simple=partition_columns | length == 1 and partitions | length <= 100) -%}
  {%- for value in partitions | sum(start=[]) -%}
    {%- set state.simple = state.simple and value is not none and not modules.re.search('[\'"\\\\]', value) -%}
  {%- endfor -%}
  {%- set literals = spark_bucketing.literal_rows(partitions) -%}
  {%- if not partitions -%}
    {{ return('false') }}
  {%- elif state.simple -%}
    {%- set name = spark_bucketing.quote_identifier(partition_columns[0].name) -%}
    {%- set type = ' as ' ~ partition_columns[0].type ~ ')' -%}
    {{ return('(' ~ name ~ ' is not null and ' ~ name ~ ' in (cast(' ~ literals | map('first') | join(type ~ ', cast(') ~ type ~ '))') }}
  {%- endif -%}
  {%- set texts = spark_bucketing.quote_columns(partition_columns | map(attribute='name'), 'cast(%s as string)') -%}
  {{ return('array(' ~ texts ~ ') in (array(' ~ literals | map('join', ', ') | join('), array(') ~ '))') }}
{%- endmacro %}
