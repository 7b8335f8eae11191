{#- Drops tables that this run created or no longer needs, in the given order. -#}
{% macro drop_tables(relations) -%}
  {%- for relation in relations -%}
    {% do spark_bucketing.execute_sql('drop table if exists ' ~ spark_bucketing.quote_relation(relation)) %}
    {% do spark_bucketing.forget_made(relation) %}
  {%- endfor -%}
{%- endmacro %}


{#- Records that this run dropped a relation. -#}
{% macro forget_made(relation) -%}
  {%- do context.get('__spark_bucketing_made', {}).pop(spark_bucketing.quote_relation(relation), none) -%}
  {%- do context.setdefault('__spark_bucketing_relations', {}).update({relation.schema ~ '.' ~ relation.identifier | lower: false}) -%}
{%- endmacro %}
