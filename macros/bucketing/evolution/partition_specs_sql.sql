{#-
  Query for the bucket spec that each partition of a table is read by: directory, partition, buckets (0 for none, NULL for a
  broken record), clustered_by, sorted_by, problem, is_recorded, and described_as, the spec in its own descriptor. A partition without
  a record is read by the table's spec, as far as its files prove it.

  Needs the session extension, and asks the metastore once.

  layout: table_layout() of the table
-#}
{% macro partition_specs_sql(relation, layout) -%}
  {%- set name = spark_bucketing.string_literal(spark_bucketing.quote_relation(relation)) -%}
  select
    {{ spark_bucketing.directory_of_location('location') }} as directory,
    partition,
    if(problem is null, coalesce(num_buckets, {{ layout.buckets }}), null) as buckets,
    if(problem is null, coalesce(bucket_columns, {{ spark_bucketing.name_array(layout.clustered_by) }}), null) as clustered_by,
    if(problem is null, coalesce(sort_columns, {{ spark_bucketing.name_array(layout.sorted_by) }}), null) as sorted_by,
    problem,
    spec_version is not null as is_recorded,
    {{ spark_bucketing.spec_in_words('descriptor_num_buckets', 'descriptor_bucket_columns', 'descriptor_sort_columns') }} as described_as
  from bucket_specs({{ name }})
{%- endmacro %}


{#- SQL for a bucket spec as text, NULL for an unknown one. -#}
{% macro spec_in_words(buckets, clustered_by, sorted_by) -%}
  {{ return('if(' ~ buckets ~ " = 0, 'no buckets', concat(" ~ buckets ~ ", ' buckets by (', array_join(" ~ clustered_by
      ~ ", ', '), ') sorted by (', array_join(" ~ sorted_by ~ ", ', '), ')'))") }}
{%- endmacro %}


{#- SQL for an array of names, in lower case, as the metastore has them. -#}
{% macro name_array(names) -%}
  {%- set literals = [] -%}
  {%- for name in names -%}
    {%- do literals.append(spark_bucketing.string_literal(name | lower)) -%}
  {%- endfor -%}
  {{ return('cast(array(' ~ literals | join(', ') ~ ') as array<string>)') }}
{%- endmacro %}
