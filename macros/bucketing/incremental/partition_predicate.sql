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
  {%- set literals = spark_bucketing.partition_literals(partitions) -%}
  {%- set tests = [] -%}
  {%- if not partitions -%}
    {{ return('false') }}
  {%- elif state.plain -%}
    {%- for items in literals -%}
      {%- do tests.append('cast(' ~ items[0] ~ ' as ' ~ partition_columns[0].type ~ ')') -%}
    {%- endfor -%}
    {%- set name = spark_bucketing.quote_identifier(partition_columns[0].name) -%}
    {{ return('(' ~ name ~ ' is not null and ' ~ name ~ ' in (' ~ tests | join(', ') ~ '))') }}
  {%- endif -%}
  {%- for items in literals -%}
    {%- do tests.append('array(' ~ items | join(', ') ~ ')') -%}
  {%- endfor -%}
  {%- set texts = [] -%}
  {%- for column in partition_columns -%}
    {%- do texts.append('cast(' ~ spark_bucketing.quote_identifier(column.name) ~ ' as string)') -%}
  {%- endfor -%}
  {{ return('array(' ~ texts | join(', ') ~ ') in (' ~ tests | join(', ') ~ ')') }}
{%- endmacro %}


{#- For each partition a list of SQL strings. -#}
{% macro partition_literals(partitions) -%}
  {%- set literals = [] -%}
  {%- for values in partitions -%}
    {%- set items = [] -%}
    {%- for value in values -%}
      {%- do items.append('cast(null as string)' if value is none else spark_bucketing.string_literal(value)) -%}
    {%- endfor -%}
    {%- do literals.append(items) -%}
  {%- endfor -%}
  {{ return(literals) }}
{%- endmacro %}
