{#-
  Makes sure that partitions have the record of the table's spec. The session extension leaves it with every INSERT, but
  does not take rows back when it fails to; then it is stated here.

  condition: SQL condition on the columns of partition_specs_sql()
-#}
{% macro record_partitions(relation, layout, existing, condition) -%}
  {%- set wanted = spark_bucketing.spec_in_words(layout.buckets, spark_bucketing.name_array(layout.clustered_by), spark_bucketing.name_array(layout.sorted_by)) -%}
  {%- set others -%}
    select concat('v', to_json(transform(split(partition, '/'), part -> url_decode(replace(substring(part, instr(part, '=') + 1), '+', '%2B')))))
    from ({{ spark_bucketing.partition_specs_sql(relation, existing) }})
    where {{ condition }} and not (
      is_recorded and {{ spark_bucketing.spec_in_words('buckets', 'clustered_by', 'sorted_by') }} <=> {{ wanted }}
      and coalesce(described_as, {{ wanted }}) <=> {{ wanted }}
    )
  {%- endset -%}
  {%- for row in run_query(others).rows -%}
    {%- set values = [] -%}
    {%- for value in fromjson(row[0][1:]) -%}
      {%- do values.append(none if value == '__HIVE_DEFAULT_PARTITION__' else value) -%}
    {%- endfor -%}
    {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' '
        ~ spark_bucketing.partition_spec(existing.partition_by, values) ~ ' ' ~ spark_bucketing.bucket_clause(layout)) %}
  {%- endfor -%}
{%- endmacro %}
