{#-
  Adds to each reconciled column the SQL expression that reads it from the query.

  INSERT converts ordinary columns by Spark's store assignment rules. A bucket or partition column needs the table's type before the
  shuffle, so only lossless conversions are allowed.
-#}
{% macro fill_columns(columns, layout) -%}
  {%- set keys = (layout.clustered_by + layout.partition_by) | map('lower') | list -%}
  {%- set widening = ['tinyint', 'smallint', 'int', 'bigint'] -%}
  {%- for column in columns -%}
    {%- if column.from is none -%}
      {%- do column.update({'expression': 'cast(null as ' ~ spark_bucketing.quoted_type(column.type) ~ ')'}) -%}
    {%- else -%}
      {%- set name = column.from.get('expression', spark_bucketing.quote_identifier(column.from.name)) -%}
      {%- do column.update({'expression': name}) -%}
      {%- if column.name | lower in keys and column.from.type | lower != column.type | lower -%}
        {%- if column.type == 'string'
            or (column.from.type in widening and column.type in widening and widening.index(column.from.type) < widening.index(column.type)) -%}
          {%- do column.update({'expression': 'cast(' ~ name ~ ' as ' ~ column.type ~ ')'}) -%}
        {%- else -%}
          {% do spark_bucketing.raise_config_error('clustered_by' if column.name | lower in layout.clustered_by | map('lower') | list else 'partition_by',
              column.name ~ ' ' ~ column.from.type ~ ' in the query', column.type ~ ', the type of the column in the table',
              '`cast(' ~ column.from.name ~ ' as ' ~ column.type ~ ')` in the model, or `dbt run --full-refresh`') %}
        {%- endif -%}
      {%- endif -%}
    {%- endif -%}
  {%- endfor -%}
{%- endmacro %}
