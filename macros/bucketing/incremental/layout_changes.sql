{#-
  Returns how to apply a layout that differs from the table's: 'rewrite' or 'evolve', or none if they agree.

  Raises an error with on_bucket_change='fail', or if the table cannot evolve.
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
  {%- set can_evolve = layout.bucket_hash != 'spark' and layout.partition_by and not spark_bucketing.evolution_problem(layout, existing) -%}
  {% do spark_bucketing.raise_config_error('on_bucket_change', 'fail, and the config defines\n  ' ~ spark_bucketing.describe_layout(layout),
      'the layout of the table:\n  ' ~ spark_bucketing.describe_layout(existing),
      "on_bucket_change='rebuild' to rewrite the table in the new layout, " ~ ("'evolve' to use it for new partitions only, " if can_evolve else '') ~ 'or `dbt run --full-refresh`') %}
{%- endmacro %}
