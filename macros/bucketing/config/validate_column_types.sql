{#-
  Raises an error before the run writes anything if the table cannot store values of a column's type. Also raises an error if a partition or sort
  column has an unsuitable type, and for names of struct fields that the Hive metastore cannot store.
-#}
{% macro validate_column_types(columns, layout) -%}
  {%- set hive = layout.bucket_hash != 'spark' -%}
  {%- set orc = layout.file_format == 'orc' -%}
  {%- set unstorable = ['variant', 'geometry', 'geography'] if hive or orc else [] -%}
  {%- set unstorable = unstorable + (['interval', 'time', 'timestamp_ntz'] if hive else ['time', 'void'] if orc else ['time']) -%}
  {%- for column in columns -%}
    {%- set found = column.name ~ ' ' ~ column.type -%}
    {%- set type = column.type | lower -%}
    {%- set cast = '`cast(' ~ column.name ~ ' as ' ~ spark_bucketing.hive_type(column.type) ~ ')` in the model' -%}
    {%- if modules.re.search(spark_bucketing.type_pattern(unstorable), type) or (orc and ' collate ' in type) -%}
      {% do spark_bucketing.raise_column_error(found, 'a type that ' ~ layout.file_format ~ ' tables' ~ (" with bucket_hash='" ~ layout.bucket_hash ~ "'" if layout.clustered_by else '') ~ ' can store',
          cast ~ (", or bucket_hash='spark'" if hive and not orc and not modules.re.search(spark_bucketing.type_pattern(['interval', 'time']), type) else '')) %}
    {%- elif column.name in layout.partition_by and modules.re.match('array|map|struct|variant|binary|void', type) -%}
      {% do spark_bucketing.raise_column_error(found, 'a partition column of a simple type', 'partition by another column') %}
    {%- elif column.name in layout.sorted_by and modules.re.match('map|variant', type) -%}
      {% do spark_bucketing.raise_column_error(found, 'a sort column of an orderable type', 'sort by another column') %}
    {%- endif -%}
    {%- for name in spark_bucketing.field_names(column.type) if hive and not modules.re.match('^[A-Za-z0-9_]+$', name) -%}
      {% do spark_bucketing.raise_column_error(found,
          "only letters, digits and underscores in names of struct fields with bucket_hash='" ~ layout.bucket_hash ~ "', unlike '" ~ name ~ "'",
          cast ~ ", or bucket_hash='spark'") %}
    {%- endfor -%}
    {%- if modules.re.search(':[^<>,()]*:|struct<[^:<>]*,', type) -%}
      {% do spark_bucketing.raise_column_error(found, "names of struct fields without ':' and ',', which separate fields in Spark's type strings",
          '`cast(' ~ column.name ~ ' as struct<...>)` with other field names in the model') %}
    {%- endif -%}
    {%- if hive and spark_bucketing.without_void(column.type) != column.type -%}
      {#- A bare null in a query has the type void, which the Hive metastore cannot store. -#}
      {%- do column.update({'type': spark_bucketing.without_void(column.type), 'with_void': column.type}) -%}
    {%- endif -%}
  {%- endfor -%}
{%- endmacro %}
