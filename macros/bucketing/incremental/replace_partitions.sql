{#-
  Writes the new rows to a build, and publishes it with one statement of the session extension; see docs/explanation/replacing-rows.md. Before
  the publication, the table does not change, except for new columns and a new bucket spec.

    insert_overwrite, microbatch  publishes the new rows
    append, merge                 publishes the new rows of new partitions. For partitions that exist, writes a second build with their merged rows

  If a merge can move rows between partitions, the second build contains all touched partitions.

  rows: string, SQL from aligned_rows()
  reconciled: dict, from reconcile_columns(), with the expressions of fill_columns()
  change: string, from layout_changes()
  batch: dict {start, end} of a microbatch, or none
-#}
{% macro replace_partitions(relation, source, rows, reconciled, layout, increment, existing, change, batch) -%}
  {%- set columns = spark_bucketing.without_expressions(reconciled.columns) -%}
  {%- set build = spark_bucketing.intermediate_relation(relation, 'build') -%}
  {%- set new_rows = spark_bucketing.quote_relation(build) -%}
  {%- set ids = [spark_bucketing.start_build(build, columns, layout, existing)] -%}
  {% do spark_bucketing.insert_bucketed(build, source, reconciled.columns, layout) %}
  {% do spark_bucketing.verify_buckets(build, layout, build=ids[0]) %}
  {%- if batch -%}
    {% do spark_bucketing.validate_batch(rows, build, columns, layout, batch) %}
  {%- elif increment.strategy == 'merge' and increment.predicates -%}
    {% do spark_bucketing.validate_merge(rows, new_rows, columns, increment) %}
  {%- endif -%}
  {%- set moves = spark_bucketing.moves_rows(layout, increment) -%}
  {%- set touched = spark_bucketing.partitions_to_merge(relation, rows, build, layout, increment, moves) -%}
  {%- if touched -%}
    {%- set merged = spark_bucketing.intermediate_relation(relation, 'merged') -%}
    {%- do ids.append(spark_bucketing.start_build(merged, columns, layout, existing)) -%}
    {%- if moves -%}
      {#- The merge may move all rows out of a partition. -#}
      {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(merged) ~ ' add '
          ~ spark_bucketing.partition_specs(layout.partition_by, touched) | join(' ')) %}
      {% do spark_bucketing.record_partitions(relation, merged) %}
    {%- endif -%}
    {%- set kept = spark_bucketing.partition_predicate(spark_bucketing.columns_named(columns, layout.partition_by), touched) -%}
    {%- set content = spark_bucketing.new_content(rows, '(select * from ' ~ new_rows ~ ' where ' ~ kept ~ ')', columns, increment, kept) -%}
    {% do spark_bucketing.insert_bucketed(merged, content, columns, layout) %}
    {% do spark_bucketing.verify_buckets(merged, layout, build=ids[1]) %}
  {%- endif -%}
  {#- Alters the table only now, because Spark may reject the new rows. -#}
  {% do spark_bucketing.alter_relation(relation, reconciled.added, change, layout, existing) %}
  {% do spark_bucketing.publish_builds(relation, [build, merged] if touched else [build], ids) %}
{%- endmacro %}


{#- Returns whether increments of a table publish builds: a statement of the session extension changes partitions in the metastore. -#}
{% macro publishes_builds(existing) -%}
  {{ return(existing.partition_by and existing.tracks_partitions and spark_bucketing.extension_enabled()) }}
{%- endmacro %}


{#-
  Creates an external table in a new directory in the table's location, and returns the id of this build.

  columns: list of {name, type} of the table after the run
  existing: dict, table_layout() of the table
-#}
{% macro start_build(build, columns, layout, existing) -%}
  {% do spark_bucketing.execute_sql(spark_bucketing.bucketed_table_ddl(build, columns, layout, existing.location)) %}
  {%- do context.setdefault('__spark_bucketing_made', {}).update({spark_bucketing.quote_relation(build): false}) -%}
  {{ return(context['__spark_bucketing_build']) }}
{%- endmacro %}


{#- Returns whether a merge can move rows between partitions, because a partition column is not in the key. -#}
{% macro moves_rows(layout, increment) -%}
  {{ return(increment.strategy == 'merge'
      and layout.partition_by | map('lower') | reject('in', increment.unique_key | map('lower') | list) | list | length > 0) }}
{%- endmacro %}


{#- Returns the partitions for which an increment needs rows of the table. Unless rows can move between partitions, it also records them. -#}
{% macro partitions_to_merge(relation, rows, build, layout, increment, moves) -%}
  {%- if increment.strategy not in ['append', 'merge'] -%}
    {{ return([]) }}
  {%- elif moves -%}
    {#- The model's query may have cached the table's files. -#}
    {% do spark_bucketing.execute_sql('refresh table ' ~ spark_bucketing.quote_relation(relation)) %}
    {{ return(spark_bucketing.touched_partitions(rows, spark_bucketing.quote_relation(build), layout, increment).partitions) }}
  {%- endif -%}
  {{ return(spark_bucketing.record_partitions(relation, build)) }}
{%- endmacro %}


{#-
  Records in a build what its partitions contain in the table now, so that the publication fails if another statement has changed them since.
  Later statements of the run read at least these files.
  Returns the partitions that exist in the table.
-#}
{% macro record_partitions(relation, build) -%}
  {%- set partitions = [] -%}
  {%- for row in run_query('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' start build in ' ~ spark_bucketing.quote_relation(build)).rows -%}
    {%- do partitions.append(spark_bucketing.values_of_partition(row[0])) -%}
  {%- endfor -%}
  {{ return(partitions) }}
{%- endmacro %}


{#-
  Points partitions of a table to builds, and drops the tables of the builds.

  ids: list of the ids of the builds. The statement fails if another run of the model has created a build of the same name
-#}
{% macro publish_builds(relation, builds, ids) -%}
  {%- set sources = [] -%}
  {%- for build in builds -%}
    {%- do sources.append(spark_bucketing.quote_relation(build) ~ ' id ' ~ spark_bucketing.string_literal(ids[loop.index0])) -%}
  {%- endfor -%}
  {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' publish build from ' ~ sources | join(', ')) %}
  {%- for build in builds -%}
    {% do spark_bucketing.forget_made(build) %}
  {%- endfor -%}
{%- endmacro %}
