{#- Why the session cannot be asked for the bucket specs of partitions, as {found, instead} in words; none when it can. -#}
{% macro missing_bucket_specs() -%}
  {%- if not run_query("show user functions like 'bucket_specs'").rows -%}
    {{ return({
        'found': 'a session without the session extension, or with one from before it had `bucket_specs`',
        'instead': 'load it (spark-bucketing extension conf prints the settings)',
    }) }}
  {%- endif -%}
  {%- set description = run_query('describe function bucket_specs').columns[0].values() | join('\n') -%}
  {%- if 'Class: org.apache.spark.sql.bucketing.records.BucketSpecsFunction' not in description -%}
    {{ return({
        'found': 'a session of which it cannot be known whether it has the session extension, since its `bucket_specs` is another function ('
            ~ (modules.re.findall('Class: (.*)', description) | first | default('of unknown class')) ~ ')',
        'instead': 'drop or rename that function',
    }) }}
  {%- endif -%}
  {{ return(none) }}
{%- endmacro %}
