{% macro source_of_batch() -%}
  {{ return(spark_bucketing.rows_of_batch(builtins.source(*varargs, **kwargs))) }}
{%- endmacro %}
