{#-
  Returns the name that a word most likely misspells, or none.

  Two words are similar if they are equal after removing a few letters from each: at most one letter for every three.

  within: int, the maximum number of letters to remove from each of the two words
-#}
{% macro nearest_name(word, names, within=2) -%}
  {%- for letters in range(within + 1) -%}
    {%- set shortened = spark_bucketing.shortened_words(word, letters) -%}
    {%- for name in names if letters <= modules.re.sub('[^a-z0-9]', '', name | lower) | length // 3 -%}
      {%- for other in spark_bucketing.shortened_words(name, letters) if other in shortened -%}
        {{ return(name) }}
      {%- endfor -%}
    {%- endfor -%}
  {%- endfor -%}
{%- endmacro %}


{#- Returns a word's letters and digits, and all variants with up to this many of them removed, as the keys of a dict. -#}
{% macro shortened_words(word, letters) -%}
  {%- set words = {modules.re.sub('[^a-z0-9]', '', word | string | lower): true} -%}
  {%- for _ in range(letters) -%}
    {%- for longer in words | list -%}
      {%- for place in range(longer | length) -%}
        {%- do words.update({longer[:place] ~ longer[place + 1:]: true}) -%}
      {%- endfor -%}
    {%- endfor -%}
  {%- endfor -%}
  {{ return(words) }}
{%- endmacro %}
