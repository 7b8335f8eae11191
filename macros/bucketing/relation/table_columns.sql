{#-
  Columns of a table or view as a list of {name, type, comment}, partition columns last as DESCRIBE has them.
  DESCRIBE shortens wide structs ("... 3 more fields"); typeof() does not.
-#}
{% macro table_columns(quoted_relation) -%}
  {%- set columns = [] -%}
  {%- set state = namespace(done=false, shortened=false) -%}
  {%- for row in run_query('describe table ' ~ quoted_relation).rows -%}
    {%- if not row[0] or row[0].startswith('# ') -%}
      {%- set state.done = true -%}
    {%- elif not state.done -%}
      {%- do columns.append({'name': row[0], 'type': row[1], 'comment': row[2] or ''}) -%}
      {%- set state.shortened = state.shortened or ' more field' in row[1] -%}
    {%- endif -%}
  {%- endfor -%}
  {%- if state.shortened -%}
    {% do spark_bucketing.spell_out_types(quoted_relation, columns) %}
  {%- endif -%}
  {{ return(columns) }}
{%- endmacro %}
