{#-
  Query for what the metastore alone says against records: partition, problem, found, expected.
    broken record      its parameters are no record
    no record          in a table that evolved: something has written the partition that leaves none
    unknown columns    columns that the table does not have, or whose hash is not certain
    not the table's    another spec than the table's, in a table that is not marked as evolved: readers take the table's
    descriptor         the partition's own StorageDescriptor, which Hive and Trino go by, says something else
  With a `where`, the partitions with at least one selected row are looked at.
-#}
{% macro invalid_records_sql(tested, layout, specs) -%}
  {%- set own = spark_bucketing.spec_in_words('buckets', 'clustered_by', 'sorted_by') -%}
  {%- set tables = spark_bucketing.spec_in_words(layout.buckets, spark_bucketing.name_array(layout.clustered_by), spark_bucketing.name_array(layout.sorted_by)) -%}
  {%- set checks = [
      ['problem is not null', "'broken record'", 'problem', "'a record as ALTER TABLE ... PARTITION ... CLUSTERED BY writes it'"],
      [own ~ ' <> described_as', "'descriptor'", 'described_as', own],
  ] -%}
  {%- if layout.evolved -%}
    {%- do checks.append(['problem is null and not is_recorded', "'no record'", "'none'", "'the spec of its files'"]) -%}
  {%- else -%}
    {%- do checks.append(['is_recorded and ' ~ own ~ ' <> ' ~ tables, '"not the table\'s"', own, tables]) -%}
  {%- endif -%}
  {%- for group in specs.groups if group.unusable -%}
    {%- do checks.append(['spec = ' ~ loop.index0, "'unknown columns'", spark_bucketing.string_literal(group.unusable),
        "'data columns of the table that Spark hashes as Hive does'"]) -%}
  {%- endfor -%}
  {%- for condition, problem, found, expected in checks %}
  select partition, {{ problem }} as problem, {{ found }} as found, {{ expected }} as expected
  from {{ specs.sql }}
  where {{ condition }}
    {%- if tested is string %}
    and directory in (select {{ spark_bucketing.directory_of_file('path') }} from ({{ spark_bucketing.files_with_rows_sql(tested) }}))
    {%- endif %}
  {{ 'union all' if not loop.last }}
  {%- endfor -%}
{%- endmacro %}
