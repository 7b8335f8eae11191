{#- value * factor modulo 2^32, for 0 <= value < 2^32. -#}
{% macro multiply_32(value, factor) -%}
  ({{ value }} * {{ factor % 65536 }} + ({{ value }} * {{ factor // 65536 }} & 65535) * 65536) & 4294967295
{%- endmacro %}
