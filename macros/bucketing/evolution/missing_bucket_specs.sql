{#- Why the session cannot be asked for the bucket specs of partitions, as {found, instead} in words; none when it can. -#}
{% macro missing_bucket_specs() -%}
  {%- if spark_bucketing.is_extensions_function('bucket_specs', 'BucketSpecsFunction') -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set description = spark_bucketing.run_cache()['bucket_specs'] | join('\n') -%}
  {%- if not description -%}
    {{ return({
        'found': 'a session without the session extension, or with one from before it had `bucket_specs`',
        'instead': 'load it (spark-bucketing extension conf prints the settings)',
    }) }}
  {%- endif -%}
  {{ return({
      'found': 'a session of which it cannot be known whether it has the session extension, since its `bucket_specs` is another function ('
          ~ (modules.re.findall('Class: (.*)', description) | first | default('of unknown class')) ~ ')',
      'instead': 'drop or rename that function',
  }) }}
{%- endmacro %}
