{#-
  Distinct partitions of a query as lists of strings, NULL as none, and whether something else was found: {partitions, found}. The leading
  'v' keeps dbt from reading 'null' and '' as NULL, and '007' as a number.

  finds: query that is asked with them for whether it has a row; not where there are no partitions
-#}
{% macro partition_values(partition_by, source, finds=none) -%}
  {%- set items = [] -%}
  {%- for name in partition_by -%}
    {%- do items.append("concat('v', cast(" ~ spark_bucketing.quote_identifier(name) ~ " as string))") -%}
  {%- endfor -%}
  {%- do items.append('(select 1 from (' ~ finds ~ ') limit 1)' if finds else 'cast(null as int)') -%}
  {%- set rows = run_query('select distinct ' ~ items | join(', ') ~ ' from ' ~ source).rows -%}
  {%- set partitions = [] -%}
  {%- for row in rows -%}
    {%- set values = [] -%}
    {%- for value in (row.values() | list)[:-1] -%}
      {%- do values.append(value[1:] if value is not none else none) -%}
    {%- endfor -%}
    {%- do partitions.append(values) -%}
  {%- endfor -%}
  {{ return({'partitions': partitions, 'found': partitions | length > 0 and rows[0].values()[-1] is not none}) }}
{%- endmacro %}
