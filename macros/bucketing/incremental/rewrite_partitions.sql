{#-
  Replaces the touched partitions of a table by new content, by way of a staging table that survives a crash; see
  docs/replacing.md.

    1. the content is built beside the table, bucketed and verified   a run that dies here leaves an incomplete staging table
    2. one statement declares it complete                             from here on, the next run finishes what this one began
    3. replace_touched_partitions() writes it over the table's partitions, and drops it

  touched: from touched_partitions(); those without rows in the content are dropped
  existing: table_layout() of the table; the staged rows are for this very table
-#}
{% macro rewrite_partitions(relation, input, columns, layout, increment, touched, existing) -%}
  {%- set staged = spark_bucketing.sibling(relation, 'staged') -%}
  {%- set name = spark_bucketing.quote_relation(staged) -%}
  {%- set kept = spark_bucketing.partition_predicate(spark_bucketing.columns_named(columns, layout.partition_by), touched.partitions) -%}
  {%- set content = spark_bucketing.new_content(spark_bucketing.quote_relation(relation), input, columns, increment, kept) -%}
  {%- set staging_layout = dict(layout, location_root=none, tblproperties=dict(layout.tblproperties, **{
      'bucketing.staging': 'incomplete',
      'bucketing.staging_for': 'increment',
      'bucketing.replaces': existing.identity,
  })) -%}
  {% do spark_bucketing.create_bucketed_table(staged, columns, staging_layout) %}
  {% do spark_bucketing.insert_bucketed(staged, content, columns, staging_layout) %}
  {%- set proves = touched.lose and spark_bucketing.leaves_seals() -%}
  {%- set filled = spark_bucketing.partition_values(layout.partition_by, name, finds=spark_bucketing.unsealed_sql(staged) if proves) if touched.lose else touched -%}
  {%- if filled.found or not proves -%}
    {% do spark_bucketing.verify_buckets(staged, layout) %}
  {%- endif -%}
  {%- set emptied = touched.partitions | reject('in', filled.partitions) | list -%}
  {%- if emptied -%}
    {#- A partition without rows says that the table's is to be dropped. -#}
    {% do spark_bucketing.execute_sql('alter table ' ~ name ~ ' add if not exists '
        ~ spark_bucketing.partition_specs(layout.partition_by, emptied) | join(' ')) %}
  {%- endif -%}
  {% do spark_bucketing.execute_sql('alter table ' ~ name ~ ' set tblproperties '
      ~ spark_bucketing.property_list({'bucketing.staging': 'complete', 'bucketing.staging_empties': emptied | length > 0})) %}
  {% do spark_bucketing.replace_touched_partitions(relation, filled.partitions, emptied, [staged, input]) %}
{%- endmacro %}
