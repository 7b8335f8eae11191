{#-
  Returns the columns of a table or view as a list of {name, type, comment}. Partition columns come last.

  The result is cached until a statement of this model mentions the table. DESCRIBE abbreviates wide structs ("... 3 more fields");
  typeof() does not.
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


{#- Returns the columns of a query in parentheses, in the same form as table_columns(). -#}
{% macro query_columns(source) -%}
  {{ return(spark_bucketing.described_columns(run_query('describe query select * from ' ~ source).rows, source)) }}
{%- endmacro %}


{#-
  Returns the columns in the result of a DESCRIBE statement.

  rows: the rows that DESCRIBE returned
  source: string, the described relation or query
-#}
{% macro described_columns(rows, source) -%}
  {%- set columns = [] -%}
  {%- set state = namespace(done=false, shortened=false) -%}
  {%- for row in rows -%}
    {%- if not row[1] -%}
      {#- Rows without a type are headings or empty lines. -#}
      {%- set state.done = true -%}
    {%- elif not state.done and not row[0] -%}
      {% do spark_bucketing.raise_column_error('a column with the name `null` or an empty name', 'column names that dbt can read', 'rename the column in the model') %}
    {%- elif not state.done -%}
      {%- do columns.append({'name': row[0], 'type': row[1], 'comment': row[2] or ''}) -%}
      {%- set state.shortened = state.shortened or ' more field' in row[1] -%}
    {%- endif -%}
  {%- endfor -%}
  {%- if state.shortened -%}
    {#- The left join returns one row, and reads nothing from the source. -#}
    {%- set types = spark_bucketing.quote_columns(columns | map(attribute='name'), 'typeof(r.%s)') -%}
    {%- set row = run_query('select ' ~ types ~ ' from (select 1) as one left join ' ~ source ~ ' as r on false').rows[0] -%}
    {%- for column in columns -%}
      {%- do column.update({'type': row[loop.index0]}) -%}
    {%- endfor -%}
  {%- endif -%}
  {{ return(columns) }}
{%- endmacro %}
