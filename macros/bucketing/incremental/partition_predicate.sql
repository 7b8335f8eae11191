{#-
  Condition that selects these partitions, in literals, so that Spark prunes when it plans; never NULL.

  A few plain values go down to the metastore as its own filter. It cannot say quotes or backslashes, and fails on a
  thousand values; arrays are compared by Spark itself, and NULLs in them are equal.

  partition_columns: list of {name, type}
  partitions: from partition_values()
-#}
{% macro partition_predicate(partition_columns, partitions) -%}
  {%- set state = namespace(plain=partition_columns | length == 1 and partitions | length <= 100) -%}
  {%- for value in partitions | sum(start=[]) -%}
    {%- set state.plain = state.plain and value is not none and not modules.re.search('[\'"\\\\]', value) -%}
  {%- endfor -%}
  {%- set literals = spark_bucketing.literal_rows(partitions) -%}
  {%- if not partitions -%}
    {{ return('false') }}
  {%- elif state.plain -%}
    {%- set name = spark_bucketing.quote_identifier(partition_columns[0].name) -%}
    {%- set type = ' as ' ~ partition_columns[0].type ~ ')' -%}
    {{ return('(' ~ name ~ ' is not null and ' ~ name ~ ' in (cast(' ~ literals | map('first') | join(type ~ ', cast(') ~ type ~ '))') }}
  {%- endif -%}
  {%- set texts = spark_bucketing.quote_columns(partition_columns | map(attribute='name'), 'cast(%s as string)') -%}
  {{ return('array(' ~ texts ~ ') in (array(' ~ literals | map('join', ', ') | join('), array(') ~ '))') }}
{%- endmacro %}
