{#-
  Condition that selects these partitions, in literals, so that Spark prunes when it plans. Values with quotes or backslashes,
  which the metastore's own filter language cannot say, are compared in a way that Spark does not hand down to it.

  partition_columns: list of {name, type}
  partitions: from partition_values()
-#}
{% macro partition_predicate(partition_columns, partitions) -%}
  {%- set alternatives = [] -%}
  {%- set plain = [] -%}
  {%- for values in partitions -%}
    {%- if partition_columns | length == 1 and values[0] is not none and not modules.re.search('[\'"\\\\]', values[0]) -%}
      {%- do plain.append('cast(' ~ spark_bucketing.string_literal(values[0]) ~ ' as ' ~ partition_columns[0].type ~ ')') -%}
    {%- else -%}
      {%- set terms = [] -%}
      {%- for column in partition_columns -%}
        {%- set value = values[loop.index0] -%}
        {%- set name = spark_bucketing.quote_identifier(column.name) -%}
        {%- if value is not none and modules.re.search('[\'"\\\\]', value) -%}
          {%- set name = 'concat(' ~ name ~ ", '')" -%}
        {%- endif -%}
        {%- do terms.append(name ~ ' is null' if value is none else name ~ ' = cast(' ~ spark_bucketing.string_literal(value) ~ ' as ' ~ column.type ~ ')') -%}
      {%- endfor -%}
      {%- do alternatives.append('(' ~ terms | join(' and ') ~ ')') -%}
    {%- endif -%}
  {%- endfor -%}
  {%- if plain -%}
    {%- do alternatives.append(spark_bucketing.quote_identifier(partition_columns[0].name) ~ ' in (' ~ plain | join(', ') ~ ')') -%}
  {%- endif -%}
  {{ return('(' ~ alternatives | join(' or ') ~ ')' if alternatives else 'false') }}
{%- endmacro %}
