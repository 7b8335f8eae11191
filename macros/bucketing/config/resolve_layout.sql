{#- The layout with every column spelled as the query returns it; the other half of the validation. -#}
{% macro resolve_layout(layout, columns) -%}
  {%- set by_name = {} -%}
  {%- for column in columns -%}
    {%- do by_name.update({column.name | lower: column}) -%}
  {%- endfor -%}
  {%- set resolved = dict(layout) -%}
  {%- for setting in ['clustered_by', 'sorted_by', 'partition_by'] -%}
    {%- set names = [] -%}
    {%- for name in layout[setting] -%}
      {%- set column = by_name.get(name | lower) -%}
      {%- if column is none -%}
        {% do spark_bucketing.raise_config_error(setting, name, 'a column that the query returns: ' ~ columns | map(attribute='name') | join(', '),
            'name one of these, as a plain name: sorting is ascending, and expressions need a column of their own') %}
      {%- endif -%}
      {%- do names.append(column.name) -%}
      {%- if setting == 'clustered_by' -%}
        {% do spark_bucketing.validate_bucket_type(column, layout.bucket_hash) %}
      {%- endif -%}
    {%- endfor -%}
    {%- do resolved.update({setting: names}) -%}
  {%- endfor -%}
  {{ return(resolved) }}
{%- endmacro %}
