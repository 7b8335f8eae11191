{#-
  Returns the model's SQL, extended by checks of the `not_null` and `check` constraints in an enforced contract.

  Parquet and ORC tables do not support constraints. Therefore, the query itself fails if it returns a row that violates a constraint. Other types of
  constraints depend on all rows of the table. The macro warns that they are not enforced.
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
        {% do exceptions.warn("Model `" ~ model.name ~ "`: " ~ name ~ ' is not enforced. ' ~ ('Spark does not support constraints of this type for Parquet and ORC tables. Use data_tests instead.'
            if config.get('contract').enforced else 'Set contract: {enforced: true}.')) %}
      {%- endif -%}
    {%- elif not (columns if constraint.type == 'not_null' else constraint.expression) -%}
      {%- set needed = 'columns: [id]' if constraint.type == 'not_null' else 'expression: "id > 0"' -%}
      {% do spark_bucketing.raise_config_error('constraints', name ~ ' without `' ~ needed.split(':')[0] ~ '`', 'a constraint with `' ~ needed.split(':')[0] ~ '`', needed) %}
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
    when {{ broken }} then raise_error({{ spark_bucketing.string_literal(spark_bucketing.error_message(
        'Model `' ~ model.name ~ '` cannot be built, because a row violates the ' ~ name ~ '.', none, none, 'filter or correct such rows in the model')) }}) is null
    {%- endfor %}
    else true end
{%- endmacro %}
