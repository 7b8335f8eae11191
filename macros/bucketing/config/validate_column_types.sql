{#-
  Types that tables in these formats cannot hold, or not in this place, and names inside of structs that Hive's metastore cannot keep,
  found before anything is written.
-#}
{% macro validate_column_types(columns, layout) -%}
  {%- set hive = layout.bucket_hash == 'hive' -%}
  {%- set orc = layout.file_format == 'orc' -%}
  {%- set unstorable = ['variant', 'geometry', 'geography'] if hive or orc else [] -%}
  {%- set unstorable = unstorable + (['interval', 'time', 'timestamp_ntz'] if hive else ['time', 'void'] if orc else ['time']) -%}
  {%- for column in columns -%}
    {%- set found = column.name ~ ' ' ~ column.type -%}
    {%- set type = column.type | lower -%}
    {%- set cast = 'cast(' ~ column.name ~ ' as ' ~ spark_bucketing.hive_type(column.type) ~ ') in the model' -%}
    {%- if modules.re.search(spark_bucketing.type_pattern(unstorable), type) or (orc and ' collate ' in type) -%}
      {% do spark_bucketing.raise_column_error(found, 'a type that ' ~ layout.file_format ~ ' tables' ~ (" of bucket_hash='" ~ layout.bucket_hash ~ "'" if layout.clustered_by else '') ~ ' can hold',
          cast ~ (", or bucket_hash='spark'" if hive and not orc and not modules.re.search(spark_bucketing.type_pattern(['interval', 'time']), type) else '')) %}
    {%- elif column.name in layout.partition_by and modules.re.match('array|map|struct|variant|binary|void', type) -%}
      {% do spark_bucketing.raise_column_error(found, 'a partition column of a simple type', 'partition by another column') %}
    {%- elif column.name in layout.sorted_by and modules.re.match('map|variant', type) -%}
      {% do spark_bucketing.raise_column_error(found, 'a sort column of a type that has an order', 'sort by another column') %}
    {%- endif -%}
    {%- for name in spark_bucketing.field_names(column.type) if hive and not modules.re.match('^[A-Za-z0-9_]+$', name) -%}
      {% do spark_bucketing.raise_column_error(found, "names inside of structs made of letters, digits and underscores for bucket_hash='hive', unlike '" ~ name ~ "'",
          cast ~ ", or bucket_hash='spark'") %}
    {%- endfor -%}
    {%- if modules.re.search(':[^<>,()]*:|struct<[^:<>]*,', type) -%}
      {% do spark_bucketing.raise_column_error(found, "names inside of structs without ':' and ',', which Spark's types are spelled with",
          'cast(' ~ column.name ~ ' as struct<...>) with other names in the model') %}
    {%- endif -%}
    {%- if hive and spark_bucketing.without_void(column.type) != column.type -%}
      {#- What a query's bare null is. Tables of Spark keep it so, Hive's cannot. -#}
      {%- do column.update({'type': spark_bucketing.without_void(column.type), 'with_void': column.type}) -%}
    {%- endif -%}
  {%- endfor -%}
{%- endmacro %}
