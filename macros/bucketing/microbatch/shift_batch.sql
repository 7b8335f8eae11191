{#- Returns the start of the batch that is a given number of batches after or before the batch that contains this time. -#}
{% macro shift_batch(time, size, offset) -%}
  {%- set midnight = time.replace(minute=0, second=0, microsecond=0) if size == 'hour' else time.replace(hour=0, minute=0, second=0, microsecond=0) -%}
  {%- if size == 'hour' -%}
    {{ return(midnight + modules.datetime.timedelta(hours=offset)) }}
  {%- elif size == 'day' -%}
    {{ return(midnight + modules.datetime.timedelta(days=offset)) }}
  {%- elif size == 'month' -%}
    {%- set month = time.year * 12 + time.month - 1 + offset -%}
    {{ return(midnight.replace(year=month // 12, month=month % 12 + 1, day=1)) }}
  {%- else -%}
    {{ return(midnight.replace(year=time.year + offset, month=1, day=1)) }}
  {%- endif -%}
{%- endmacro %}
