{#-
  Asked once, until a statement of this model names the table.

  Columns of a table or view (table_columns) or of a query in parentheses (query_columns) as a list of {name, type, comment}, partition columns last as DESCRIBE has them.
  DESCRIBE shortens wide structs ("... 3 more fields"); typeof() does not.
-#}
{% macro table_columns(quoted_relation) -%}
  {%- set described = context.setdefault('__spark_bucketing_columns', {}) -%}
  {%- if quoted_relation not in described -%}
    {%- do described.update({quoted_relation: spark_bucketing.described_columns(run_query('describe table ' ~ quoted_relation).rows, quoted_relation)}) -%}
  {%- endif -%}
  {%- set columns = [] -%}
  {%- for column in described[quoted_relation] -%}
    {%- do columns.append(dict(column)) -%}
  {%- endfor -%}
  {{ return(columns) }}
{%- endmacro %}


{#- The same of a query in parentheses. -#}
{% macro query_columns(source) -%}
  {{ return(spark_bucketing.described_columns(run_query('describe query select * from ' ~ source).rows, source)) }}
{%- endmacro %}


{#- rows: what DESCRIBE says of the source -#}
{% macro described_columns(rows, source) -%}
  {%- set columns = [] -%}
  {%- set state = namespace(done=false, shortened=false) -%}
  {%- for row in rows -%}
    {%- if not row[1] -%}
      {#- A heading, or the empty line before it. A column has a type, whatever its name. -#}
      {%- set state.done = true -%}
    {%- elif not state.done and not row[0] -%}
      {% do spark_bucketing.raise_column_error('a column called `null` or of an empty name', 'names that dbt can read', 'another name for it') %}
    {%- elif not state.done -%}
      {%- do columns.append({'name': row[0], 'type': row[1], 'comment': row[2] or ''}) -%}
      {%- set state.shortened = state.shortened or ' more field' in row[1] -%}
    {%- endif -%}
  {%- endfor -%}
  {%- if state.shortened -%}
    {% do spark_bucketing.spell_out_types(source, columns) %}
  {%- endif -%}
  {{ return(columns) }}
{%- endmacro %}
