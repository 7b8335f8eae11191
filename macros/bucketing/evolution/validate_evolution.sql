{#- Raises an error if a table cannot evolve to the layout of the config. -#}
{% macro validate_evolution(layout, existing) -%}
  {%- set problem = spark_bucketing.evolution_problem(layout, existing) -%}
  {%- if problem -%}
    {% do spark_bucketing.raise_config_error('on_bucket_change', 'evolve, and the table is\n  ' ~ spark_bucketing.describe_layout(existing) ~ problem.found,
        problem.expected, problem.instead ~ "on_bucket_change='rebuild' to rewrite the table's rows in the new layout, or `dbt run --full-refresh`") %}
  {%- endif -%}
{%- endmacro %}


{#-
  Returns the message parts {found, expected, instead} if the config and the table differ in anything besides their bucket specs, otherwise none. Existing
  partitions keep their files, so Spark must be able to read these files after the table is altered.

  The table property and all seals must have the bucketing version of the config, because Spark cannot combine partitions of different versions. This
  includes seals that do not match the files, which may contain older rows of this version. A table that is NOT CLUSTERED keeps its property and seals.

  existing: dict, table_layout() of the table
-#}
{% macro evolution_problem(layout, existing) -%}
  {%- for setting in ['file_format', 'partition_by'] if spark_bucketing.property_text(layout[setting]) != spark_bucketing.property_text(existing[setting]) -%}
    {{ return({'found': '', 'instead': '', 'expected': 'a table with ' ~ setting ~ '='
        ~ (layout[setting] if setting == 'file_format' else '[' ~ layout[setting] | join(', ') ~ ']')
        ~ '; only `clustered_by`, `buckets` and `sorted_by` can evolve'}) }}
  {%- endfor -%}
  {%- if existing.buckets and existing.bucket_hash == 'spark' -%}
    {{ return({'found': '', 'instead': '',
        'expected': 'a table in the Hive layout or without buckets; in the Spark layout, stock Spark reads all partitions with the same number of buckets'}) }}
  {%- endif -%}
  {%- set version = spark_bucketing.bucketing_versions()[layout.bucket_hash] -%}
  {%- set expected = "'bucketing_version' = '" ~ version ~ "', the version of bucket_hash='" ~ layout.bucket_hash ~ "'; Spark cannot combine partitions of different versions" -%}
  {%- if (existing.buckets or existing.states_version) and existing.bucketing_version != version -%}
    {%- set is_known = existing.bucketing_version in spark_bucketing.bucketing_versions().values() -%}
    {{ return({'found': ", with the table property 'bucketing_version' = '" ~ existing.bucketing_version ~ "'", 'expected': 'a table with ' ~ expected,
        'instead': "bucket_hash='" ~ spark_bucketing.stated_hash(existing.bucketing_version) ~ "', which this property states, or " if is_known else ''}) }}
  {%- endif -%}
  {%- if existing.partition_by and spark_bucketing.extension_enabled() -%}
    {%- set sealed = run_query("select min(partition), count(*), max(hash) from bucket_specs(" ~ spark_bucketing.string_literal(spark_bucketing.quote_relation(this))
        ~ ") where hash <> '" ~ layout.bucket_hash ~ "'").rows[0] -%}
    {%- if sealed[1] -%}
      {{ return({'found': ', with ' ~ sealed[1] ~ " partition(s) sealed with bucket_hash='" ~ sealed[2] ~ "', such as " ~ sealed[0],
          'expected': 'partitions with ' ~ expected, 'instead': ''}) }}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}
