{#-
  Replaces partitions of the table with the rows of the staging table. It is idempotent.

  It reads the table's metadata from the metastore, because a crashed run may have staged the rows.

  empties: bool, whether to drop partitions that are left without rows
  spent: list of relations to drop after the verification, the staging table first
-#}
{% macro replace_touched_partitions(relation, empties, spent) -%}
  {%- set layout = dict(spark_bucketing.table_layout(relation), write_tasks=config.get('write_tasks')) -%}
  {%- set columns = spark_bucketing.table_columns(spark_bucketing.quote_relation(relation)) -%}
  {%- set staged = spark_bucketing.quote_relation(spent[0]) -%}
  {%- set rows = '(select * from ' ~ staged ~ ' where `__dbt_row`)' if empties else staged -%}
  {%- set before = spark_bucketing.before_write(layout.location) -%}
  {%- set partitions = {'true': [], 'false': []} -%}
  {%- for values in (spark_bucketing.partition_values(layout.partition_by + ['__dbt_row'], staged) if empties else []) -%}
    {%- do partitions[values[-1]].append(values[:-1]) -%}
  {%- endfor -%}
  {%- set emptied = partitions.false | reject('in', partitions.true) | list -%}
  {% do spark_bucketing.insert_rows(relation, rows, columns, layout, overwrite='dynamic') %}
  {%- if emptied -%}
    {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' drop if exists '
        ~ spark_bucketing.partition_specs(layout.partition_by, emptied) | join(', ')) %}
  {%- endif -%}
  {% do spark_bucketing.verify_buckets(relation, layout, before, staged=spent[0]) %}
  {% do spark_bucketing.drop_tables(spent) %}
{%- endmacro %}
