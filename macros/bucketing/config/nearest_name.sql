{#-
  Returns the name that a misspelled word most likely stands for, or none.

  within: int, the largest edit distance. Two swapped letters count as one edit. Short names allow fewer edits: one for every three letters.
-#}
{% macro nearest_name(word, names, within=2) -%}
  {%- set nearest = namespace(name=none, distance=within + 1) -%}
  {%- set plain = modules.re.sub('[^a-z0-9]', '', word | string | lower) -%}
  {%- for name in names -%}
    {%- set other = modules.re.sub('[^a-z0-9]', '', name) -%}
    {%- if (plain | length - other | length) | abs < nearest.distance -%}
      {%- set distance = spark_bucketing.edit_distance(plain, other) -%}
      {%- set distance = 1 if distance == 2 and plain | sort == other | sort else distance -%}
      {%- if distance < nearest.distance and distance <= other | length // 3 -%}
        {%- set nearest.name = name -%}
        {%- set nearest.distance = distance -%}
      {%- endif -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(nearest.name) }}
{%- endmacro %}


{#- Returns the Levenshtein distance of two words. -#}
{% macro edit_distance(word, other) -%}
  {%- set state = namespace(row=range(other | length + 1) | list) -%}
  {%- for letter in word -%}
    {%- set row = [loop.index] -%}
    {%- for other_letter in other -%}
      {%- do row.append([state.row[loop.index] + 1, row[-1] + 1, state.row[loop.index0] + (0 if letter == other_letter else 1)] | min) -%}
    {%- endfor -%}
    {%- set state.row = row -%}
  {%- endfor -%}
  {{ return(state.row[-1]) }}
{%- endmacro %}
