{#- Returns SQL that extracts the bucket id from a file name, or NULL if the name has no bucket id. -#}
{% macro bucket_id_of_path(path, bucket_hash) -%}
  {%- set pattern = '/part-[^/]*_([0-9]{1,9})(?:[.][^/]*)?$' if bucket_hash == 'spark'
      else '/(?:bucket_(?=[0-9]+(?:_[0-9]+)?$)|(?=[0-9]+_[0-9]))([0-9]{1,9})(?:_[0-9]+[^/]*)?$' -%}
  try_cast(nullif(regexp_extract({{ path }}, '{{ pattern }}', 1), '') as int)
{%- endmacro %}
