{% macro ref_of_batch() -%}
  {{ return(spark_bucketing.rows_of_batch(builtins.ref(*varargs, **kwargs))) }}
{%- endmacro %}
