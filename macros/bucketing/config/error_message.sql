{#-
  Returns the message of an error, in the form that CONTRIBUTING.md describes.

  sentence: string, names the object and its problem
  found, expected, instead: the parts below it, or none for a part that would repeat the sentence
-#}
{% macro error_message(sentence, found, expected, instead) -%}
  {%- set lines = [sentence] -%}
  {%- for label, text in [('found:    ', found), ('expected: ', expected), ('instead:  ', instead)] if text is not none -%}
    {#- The indentation of further lines shows that they belong to the same label. -#}
    {%- do lines.append('  ' ~ label ~ ((text | string).rstrip('\n').replace('\n', '\n' ~ ' ' * 12) or "''")) -%}
  {%- endfor -%}
  {{ return(lines | join('\n')) }}
{%- endmacro %}
