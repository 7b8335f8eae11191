{#-
  Writes the new content of the touched partitions to a plain table beside the table, which it returns; see docs/explanation/replacing-rows.md. A run that
  crashes here, or fails since no row can be had of it, leaves rows that nobody needs.

  rows: from aligned_rows()
  touched: from touched_partitions()
-#}
{% macro stage_partitions(relation, rows, input, columns, layout, increment, touched) -%}
  {%- set staged = spark_bucketing.intermediate_relation(relation, 'staged') -%}
  {%- set keys = spark_bucketing.columns_named(columns, layout.partition_by) -%}
  {%- set names = spark_bucketing.quote_columns(columns | map(attribute='name') | list) -%}
  {%- set content = spark_bucketing.new_content(rows, spark_bucketing.quote_relation(input), columns, increment, spark_bucketing.partition_predicate(keys, touched.partitions)) -%}
  {%- set create -%}
    create table {{ spark_bucketing.quote_relation(staged) }} using {{ layout.file_format }}
    tblproperties {{ spark_bucketing.property_list({
        'bucketing.staging': 'increment',
        'bucketing.staging_empties': touched.lose,
    }) }}
    as select {{ names }}{{ ', true as `__dbt_row`' if touched.lose }} from {{ content }}
    {%- if touched.lose %}
    {#- A row for each partition, since it may be left without any other. #}
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
  Says what staged rows replace: from here on, the next run finishes what this one began. By this client, so that a statement which goes
  on when its client has crashed completes nothing.

  identity: of the table, which the rows are for
-#}
{% macro complete_staging(staged, relation, layout, identity) -%}
  {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(staged) ~ ' set tblproperties '
      ~ spark_bucketing.property_list({'bucketing.replaces': spark_bucketing.replaced_table(relation, layout, identity)})) %}
{%- endmacro %}


{#-
  What rows are staged for, as the command says it: what no later table of its name has, its columns, and the time zone by which
  a timestamp is the name of a partition.
-#}
{% macro replaced_table(relation, layout, identity) -%}
  {%- set columns = spark_bucketing.table_columns(spark_bucketing.quote_relation(relation)) -%}
  {%- set names = columns | map(attribute='name') | list + layout.partition_by -%}
  {%- set by_time = spark_bucketing.columns_named(columns, layout.partition_by) | selectattr('type', 'equalto', 'timestamp') | list -%}
  {%- set zone = ' in ' ~ run_query('select current_timezone()').rows[0][0] if by_time else '' -%}
  {{ return(identity ~ ' with columns ' ~ local_md5(names | join(', ') | lower) ~ zone) }}
{%- endmacro %}
