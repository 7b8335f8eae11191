{#-
  What is to be done about a config that says another layout than the table has: 'rewrite' or 'evolve', as on_bucket_change
  says, or none where they agree. Raises for on_bucket_change='fail', and where the table cannot evolve.
-#}
{% macro layout_changes(layout, existing) -%}
  {%- if spark_bucketing.describe_layout(layout) == spark_bucketing.describe_layout(existing) -%}
    {{ return(none) }}
  {%- elif layout.on_bucket_change == 'evolve' -%}
    {% do spark_bucketing.validate_evolution(layout, existing) %}
    {{ return('evolve') }}
  {%- elif layout.on_bucket_change == 'rebuild' -%}
    {{ return('rewrite') }}
  {%- endif -%}
  {% do spark_bucketing.raise_config_error('on_bucket_change', 'fail, and the config says\n              ' ~ spark_bucketing.describe_layout(layout),
      'what the table has, which is\n              ' ~ spark_bucketing.describe_layout(existing),
      "on_bucket_change='rebuild' to rewrite the table's rows in the new layout, or 'evolve' to write only new partitions in it, or dbt run --full-refresh") %}
{%- endmacro %}
