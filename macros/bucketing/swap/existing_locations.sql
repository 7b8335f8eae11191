{#-
  Names of the tables beside the model's own in whose default place a directory lies, asked for once for each model. There is none
  but after a crash, which one look at all of them tells.
-#}
{% macro existing_locations() -%}
  {%- if '__spark_bucketing_taken' not in context -%}
    {%- set names = [] -%}
    {%- for role in ['tmp', 'staged', 'input', 'plan', 'backup'] -%}{%- do names.append(spark_bucketing.intermediate_relation(this, role).identifier | lower) -%}{%- endfor -%}
    {%- set schema = spark_bucketing.schema_location(this.schema) -%}
    {%- set taken = [] -%}
    {%- for name in (names if spark_bucketing.directory_exists(schema ~ '{' ~ names | join(',') ~ '}') else []) if spark_bucketing.directory_exists(schema ~ name) -%}
      {%- do taken.append(name) -%}
    {%- endfor -%}
    {%- do context.update({'__spark_bucketing_taken': taken}) -%}
  {%- endif -%}
  {{ return(context['__spark_bucketing_taken']) }}
{%- endmacro %}
