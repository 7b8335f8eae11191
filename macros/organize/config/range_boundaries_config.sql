{#-
  Returns the table whose ranges an organized table reuses, or none.

  The result is {of, names}: 'ref' or 'source', and its arguments. The config is text because dbt cannot store a relation in a config.
-#}
{% macro range_boundaries_config(range_by, node=model) -%}
  {%- set value = node.config.get('range_boundaries_from') -%}
  {%- if value is none -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set name = '["\']?([^"\'(),]+)["\']?' -%}
  {%- set found = modules.re.match('^ *(?:(ref|source) *[(] *' ~ name ~ ' *(?:, *' ~ name ~ ' *)?[)]|([A-Za-z0-9_.-]+)) *$', value) if value is string else none -%}
  {%- if not found or (found.group(1) == 'source' and not found.group(3)) -%}
    {% do spark_bucketing.raise_config_error('range_boundaries_from', value, "the name of a model, or text such as ref('orders') or source('shop', 'orders')",
        'range_boundaries_from="ref(\'orders\')", with the line -- depends_on: {{ ref(\'orders\') }} in the model', node=node) %}
  {%- elif not range_by -%}
    {% do spark_bucketing.raise_config_error('range_boundaries_from', value, '`range_by` in the config, because the ranges are those of this column', "range_by='order_id'", node=node) %}
  {%- endif -%}
  {{ return({'of': found.group(1) or 'ref', 'names': [found.group(2) or found.group(4)] + ([found.group(3)] if found.group(3) else [])}) }}
{%- endmacro %}
