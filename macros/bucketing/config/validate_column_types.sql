{#-
  Types that tables in these formats cannot hold, or not in this place, and names inside of structs that a column list
  in SQL cannot say, found before anything is written.
-#}
{% macro validate_column_types(columns, layout) -%}
  {%- set hive = layout.bucket_hash == 'hive' -%}
  {%- set orc = layout.file_format == 'orc' -%}
  {%- set unstorable = ['void', 'variant', 'geometry', 'geography'] if hive or orc else [] -%}
  {%- set unstorable = unstorable + (['interval', 'time[(]', 'timestamp_ntz'] if hive else []) -%}
  {%- for column in columns -%}
    {%- set found = column.name ~ ' ' ~ column.type -%}
    {%- set type = column.type | lower -%}
    {%- if (unstorable and modules.re.search('(?:^|[:<,] *)(?:' ~ unstorable | join('|') ~ ')', type)) or (orc and ' collate ' in type) -%}
      {% do spark_bucketing.raise_column_error(found, 'a type that ' ~ layout.file_format ~ " tables of bucket_hash='" ~ layout.bucket_hash ~ "' can hold",
          'cast(' ~ column.name ~ ' as ' ~ ('timestamp' if type == 'timestamp_ntz' else 'string') ~ ') in the model'
          ~ (", or bucket_hash='spark'" if hive and 'timestamp_ntz' in type else '')) %}
    {%- elif column.name in layout.partition_by and modules.re.match('array|map|struct|variant|binary', type) -%}
      {% do spark_bucketing.raise_column_error(found, 'a partition column of a simple type', 'partition by another column') %}
    {%- elif column.name in layout.sorted_by and modules.re.match('map|variant', type) -%}
      {% do spark_bucketing.raise_column_error(found, 'a sort column of a type that has an order', 'sort by another column') %}
    {%- endif -%}
    {%- for name in modules.re.findall('[<,] *([^:<>,]*):', column.type) if not modules.re.match('^[A-Za-z0-9_]+$', name) -%}
      {% do spark_bucketing.raise_column_error(found, 'names inside of structs made of letters, digits and underscores, unlike ' ~ name, "another name for '" ~ name ~ "'") %}
    {%- endfor -%}
  {%- endfor -%}
{%- endmacro %}
