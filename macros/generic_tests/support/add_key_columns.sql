{#-
  Adds `key_columns`, the bucket columns as a list of {name, type}, to each of the distinct specs. Returns a message if no SQL expression can reliably
  compute the writer's hash.

  tested: dict, from files_test_sql()
-#}
{% macro add_key_columns(tested) -%}
  {%- set relation, layout = tested.relation, tested.layout -%}
  {%- set versions = spark_bucketing.bucketing_versions() -%}
  {%- if layout.bucket_hash != 'spark' and layout.bucketing_version not in versions.values() -%}
    {{ return(spark_bucketing.test_problem(relation, "the table property 'bucketing_version' = '" ~ layout.bucketing_version ~ "'",
        "exactly '" ~ versions.values() | join("' or '") ~ "', the versions whose hash Spark computes, or no such property",
        'find the version of the rows with spark-bucketing table seal, and set the property to it')) }}
  {%- elif layout.bucket_hash != 'spark' and spark_bucketing.hive_hash_function(layout.bucket_hash) is none -%}
    {{ return(spark_bucketing.test_problem(relation, 'bucketing_version ' ~ layout.bucketing_version ~ ' in a session without the session extension',
        'the session extension, which computes its hash', 'load the extension (`spark-bucketing extension conf`)')) }}
  {%- endif -%}
  {%- set types = spark_bucketing.hashed_types(layout.bucket_hash) -%}
  {%- set columns = spark_bucketing.table_columns(spark_bucketing.quote_relation(relation)) -%}
  {%- set by_name = dict(zip(columns | map(attribute='name') | map('lower'), columns)) -%}
  {%- for group in tested.specs.groups -%}
    {%- do group.update({'key_columns': []}) -%}
    {%- for name in group.clustered_by -%}
      {%- set column = by_name.get(name | lower) -%}
      {%- if column is none or name | lower in layout.partition_by | map('lower') -%}
        {{ return(spark_bucketing.test_problem(relation, 'bucket column ' ~ name ~ ', which is not a data column of the table',
            'one of ' ~ by_name.values() | map(attribute='name') | join(', '), 'repair the metadata of the partitions that name it')) }}
      {%- elif not spark_bucketing.is_bucket_type(column.type, types) -%}
        {{ return(spark_bucketing.test_problem(relation, 'bucket column ' ~ name ~ ' ' ~ column.type ~ ' in the ' ~ layout.bucket_hash ~ ' layout',
            'a column of type ' ~ types | join(', ') ~ '; the hash of other types is not certain', 'bucket by another column')) }}
      {%- endif -%}
      {%- do group.key_columns.append(column) -%}
    {%- endfor -%}
  {%- endfor -%}
{%- endmacro %}
