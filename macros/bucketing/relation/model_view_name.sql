{#- The hash keeps schema and name apart: `dev`.`x_m` and `dev_x`.`m` may be built by two threads of one session. -#}
{% macro model_view_name() -%}
  {{ return(spark_bucketing.quote_identifier('__dbt_' ~ this.identifier[:80] ~ '_' ~ local_md5(this.schema ~ '.' ~ this.identifier))) }}
{%- endmacro %}
