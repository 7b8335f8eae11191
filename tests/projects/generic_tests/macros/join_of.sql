{# A macro of the user's project that refs: the model that calls it depends on both. #}
{% macro join_of(left, right) -%}
  select l.k, r.v
  from {{ ref(left) }} as l
  inner join {{ ref(right) }} as r on l.k = r.k
{%- endmacro %}
