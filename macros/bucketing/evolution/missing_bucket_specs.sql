{#- Returns the message parts {found, instead} if the function bucket_specs() is not available, otherwise none. -#}
{% macro missing_bucket_specs() -%}
  {%- if spark_bucketing.is_extensions_function('bucket_specs', 'BucketSpecsFunction') -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set description = spark_bucketing.run_cache()['bucket_specs'] | join('\n') -%}
  {%- if not description -%}
    {{ return({
        'found': 'a session without the session extension, or with an extension that lacks `bucket_specs`',
        'instead': 'start Spark with spark.sql.extensions=org.apache.spark.sql.bucketing.BucketingExtension and the extension\'s jar, as `spark-bucketing extension conf` prints them',
    }) }}
  {%- endif -%}
  {{ return({
      'found': 'a session in which another function has the name `bucket_specs` ('
          ~ (modules.re.findall('Class: (.*)', description) | first | default('of unknown class')) ~ ')',
      'instead': 'drop or rename that function',
  }) }}
{%- endmacro %}
