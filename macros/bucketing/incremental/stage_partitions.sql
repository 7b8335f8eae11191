{#-
  Writes the new rows of the touched partitions to a staging table, and returns it; see docs/explanation/recovery.md. If the run fails
  here, the next run drops the staging table.

  rows: string, SQL from aligned_rows()
  touched: dict, from touched_partitions()
-#}
{% macro stage_partitions(relation, rows, input, columns, layout, increment, touched) -%}
  {%- set staged = spark_bucketing.intermediate_relation(relation, 'staged') -%}
  {%- set keys = spark_bucketing.columns_named(columns, layout.partition_by) -%}
  {%- set names = spark_bucketing.quote_columns(columns | map(attribute='name') | list) -%}
  {%- set content = spark_bucketing.new_content(rows, spark_bucketing.quote_relation(input), columns, increment, spark_bucketing.partition_predicate(keys, touched.partitions)) -%}
  {%- set create -%}
    create table {{ spark_bucketing.quote_relation(staged) }} using {{ layout.file_format }}
    tblproperties {{ spark_bucketing.property_list({
        'bucketing.staging_empties': touched.lose,
    }) }}
    as select {{ names }}{{ ', true as `__dbt_row`' if touched.lose }} from {{ content }}
    {%- if touched.lose %}
    {#- Adds a marker row for each partition, because a partition may lose all of its rows. #}
    union all select
      {%- for column in columns %}
      {%- set name = spark_bucketing.quote_identifier(column.name) %}
      {{ 'cast(' ~ name ~ ' as ' ~ column.type ~ ')' if column in keys else 'null' }},
      {%- endfor %}
      false
    from values
      ({{ spark_bucketing.literal_rows(touched.partitions) | map('join', ', ') | join('), (') }})
    as touched ({{ spark_bucketing.quote_columns(keys | map(attribute='name') | list) }})
    {%- endif %}
  {%- endset -%}
  {% do spark_bucketing.execute_sql(create, defines=spark_bucketing.quote_relation(staged)) %}
  {{ return(staged) }}
{%- endmacro %}


{#-
  Marks a staging table as complete, so that the next run finishes the replacement if this one crashes. The client does this in a separate
  statement: a CTAS that continues after its client crashed must not complete the staging.

  identity: string, identity of the table that the rows belong to
-#}
{% macro complete_staging(staged, relation, layout, identity) -%}
  {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(staged) ~ ' set tblproperties '
      ~ spark_bucketing.property_list({'bucketing.replaces': spark_bucketing.replaced_table(relation, layout, identity)})) %}
{%- endmacro %}


{#-
  Returns an identifier of the table that rows are staged for. It consists of the table's
  identity, its columns and, for a timestamp partition column, the time zone.
-#}
{% macro replaced_table(relation, layout, identity) -%}
  {%- set columns = spark_bucketing.table_columns(spark_bucketing.quote_relation(relation)) -%}
  {%- set names = columns | map(attribute='name') | list + layout.partition_by -%}
  {%- set by_time = spark_bucketing.columns_named(columns, layout.partition_by) | selectattr('type', 'equalto', 'timestamp') | list -%}
  {%- set zone = ' in ' ~ run_query('select current_timezone()').rows[0][0] if by_time else '' -%}
  {{ return(identity ~ ' with columns ' ~ local_md5(names | join(', ') | lower) ~ zone) }}
{%- endmacro %}
