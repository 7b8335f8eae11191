{#- The partition columns among a table's columns, in the order of partition_by. -#}
{% macro partition_columns(columns, layout) -%}
  {{ return(spark_bucketing.order_columns(columns, layout.partition_by)[-(layout.partition_by | length):]) }}
{%- endmacro %}
