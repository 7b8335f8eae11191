{#- Query for what the table, or its partitions that `kept` selects, is to contain after the run. -#}
{% macro new_content(relation, input, columns, increment, kept) -%}
  {%- if increment.strategy == 'merge' -%}
    {{ return(spark_bucketing.merged_rows(relation, input, columns, increment, kept)) }}
  {%- endif -%}
  {%- set names = spark_bucketing.quote_columns(columns | map(attribute='name') | list) -%}
  {{ return(
      '(select ' ~ names ~ ' from ' ~ spark_bucketing.quote_relation(relation) ~ ' where ' ~ kept
      ~ ' union all select ' ~ names ~ ' from ' ~ spark_bucketing.quote_relation(input) ~ ')'
  ) }}
{%- endmacro %}
