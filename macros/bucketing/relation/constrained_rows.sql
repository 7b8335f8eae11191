{#-
  The model's SQL with the constraints of an enforced contract that a row can be looked at for: `not_null` and `check`. Tables in Parquet and
  ORC have no constraints of their own, so a row that breaks one fails the query that writes it. The others need all rows of
  the table; a warning says that they are not looked at.
-#}
{% macro constrained_rows(sql) -%}
  {%- set constraints = [] -%}
  {%- for constraint in model.constraints or [] -%}
    {%- do constraints.append([constraint, constraint.columns or []]) -%}
  {%- endfor -%}
  {%- for column in model.columns.values() -%}
    {%- for constraint in column.constraints or [] -%}
      {%- do constraints.append([constraint, [column.name]]) -%}
    {%- endfor -%}
  {%- endfor -%}
  {%- set conditions = [] -%}
  {%- for constraint, columns in constraints -%}
    {%- set name = "constraint '" ~ (constraint.name or constraint.type) ~ "'" ~ (' of ' ~ columns | join(', ') if columns else '') -%}
    {%- if not config.get('contract').enforced or constraint.type not in ['not_null', 'check'] -%}
      {%- if constraint.warn_unenforced is not false and constraint.warn_unsupported is not false -%}
        {% do exceptions.warn("Model '" ~ model.name ~ "': " ~ name ~ ' is not enforced. ' ~ ('Parquet and ORC tables of Spark have none of this type: test it with data_tests.'
            if config.get('contract').enforced else 'It needs contract: {enforced: true}.')) %}
      {%- endif -%}
    {%- elif not (columns if constraint.type == 'not_null' else constraint.expression) -%}
      {%- set needed = 'columns: [id]' if constraint.type == 'not_null' else 'expression: "id > 0"' -%}
      {% do spark_bucketing.raise_config_error('constraints', name ~ ' without `' ~ needed.split(':')[0] ~ '`', 'what it is about', needed) %}
    {%- elif constraint.type == 'not_null' -%}
      {%- for column in columns -%}
        {%- do conditions.append([spark_bucketing.quote_identifier(column) ~ ' is null', name]) -%}
      {%- endfor -%}
    {%- else -%}
      {%- do conditions.append(['not (' ~ constraint.expression ~ ')', name]) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- if not conditions -%}
    {{ return(sql) }}
  {%- endif -%}
  select * from (
{{ sql }}
  ) where case
    {%- for broken, name in conditions %}
    when {{ broken }} then raise_error({{ spark_bucketing.string_literal("Model '" ~ model.name ~ "': a row breaks the " ~ name ~ '.') }}) is null
    {%- endfor %}
    else true end
{%- endmacro %}
