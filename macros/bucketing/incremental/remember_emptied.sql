{#- Writes down the partitions that are to be dropped, so that a run that has to complete this one knows them. -#}
{% macro remember_emptied(relation, columns, layout, emptied) -%}
  {%- if emptied -%}
    {%- set table = spark_bucketing.sibling(relation, 'emptied') -%}
    {%- set definitions = [] -%}
    {%- for name in layout.partition_by -%}
      {%- do definitions.append(spark_bucketing.quote_identifier(name) ~ ' string') -%}
    {%- endfor -%}
    {%- set rows = [] -%}
    {%- for values in emptied -%}
      {%- set literals = [] -%}
      {%- for value in values -%}
        {%- do literals.append('null' if value is none else spark_bucketing.string_literal(value)) -%}
      {%- endfor -%}
      {%- do rows.append('(' ~ literals | join(', ') ~ ')') -%}
    {%- endfor -%}
    {% do spark_bucketing.drop_relation_with_files(table) %}
    {%- set create = 'create table ' ~ spark_bucketing.quote_relation(table) ~ ' (' ~ definitions | join(', ') ~ ') using parquet' -%}
    {% do spark_bucketing.execute_sql(spark_bucketing.in_free_location(table, create)) %}
    {% do spark_bucketing.execute_sql('insert into ' ~ spark_bucketing.quote_relation(table) ~ ' values ' ~ rows | join(', ')) %}
  {%- endif -%}
{%- endmacro %}
