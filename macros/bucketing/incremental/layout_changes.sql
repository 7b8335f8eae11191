{#- Whether the config says another layout than the table has; raises unless on_bucket_change allows to rewrite it. -#}
{% macro layout_changes(layout, existing) -%}
  {%- set changes = spark_bucketing.describe_layout(layout) != spark_bucketing.describe_layout(existing) -%}
  {%- if changes and layout.on_bucket_change == 'fail' -%}
    {% do spark_bucketing.raise_config_error('on_bucket_change', 'fail, and the config says\n              ' ~ spark_bucketing.describe_layout(layout),
        'what the table has, which is\n              ' ~ spark_bucketing.describe_layout(existing),
        "on_bucket_change='rebuild' to rewrite the table's rows in the new layout, or dbt run --full-refresh") %}
  {%- endif -%}
  {{ return(changes) }}
{%- endmacro %}
