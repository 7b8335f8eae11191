{#- found: what is wrong, in words, for each of some files -#}
{% macro raise_misplaced_files(relation, found) -%}
  {% do exceptions.raise_compiler_error(
      "Model '" ~ model.name ~ "' was not written as one file for each bucket:\n  " ~ found | join('\n  ')
      ~ "\nThe rows are complete, only their layout is not what the table claims. One cause is known: another statement of the same"
      ~ " session read " ~ relation ~ " while it was written. Run the model again, or `spark-bucketing evolution rewrite` where it is an `append` whose rows are there by now.") %}
{%- endmacro %}
