{#- Names of the fields of all structs in a type as DESCRIBE prints it: struct<a-b:int,c:array<string>> -#}
{% macro field_names(type) -%}
  {{ return(modules.re.findall('[<,] *([^:<>,]*):', type)) }}
{%- endmacro %}


{#- The type as SQL can say it: DESCRIBE prints names inside of structs without backticks. -#}
{% macro quoted_type(type) -%}
  {%- set text = namespace(type=type) -%}
  {%- for name in spark_bucketing.field_names(type) | unique(case_sensitive=true) if not modules.re.match('^[A-Za-z_][A-Za-z0-9_]*$', name) -%}
    {%- set field = '([<,] *)' ~ modules.re.escape(name) ~ ':' -%}
    {%- set quoted = spark_bucketing.quote_identifier(name) ~ ':' -%}
    {%- set text.type = modules.re.sub(field, '\\g<1>' ~ quoted | replace('\\', '\\\\'), text.type) -%}
  {%- endfor -%}
  {{ return(text.type) }}
{%- endmacro %}


{#-
  A pattern for types of these names in a type as DESCRIBE prints it, and for no names of fields: the first group is what stands before one.

  names: of types, or patterns of them
-#}
{% macro type_pattern(names) -%}
  {{ return('(^|[:<,] *)(?:' ~ names | join('|') ~ ')(?=$|[,>( ])(?![^,<>]*:)') }}
{%- endmacro %}


{#- A type with `string` for each `void`, which is the type of a bare null: any other can be written into it. -#}
{% macro without_void(type) -%}
  {{ return(modules.re.sub(spark_bucketing.type_pattern(['void']), '\\g<1>string', type)) }}
{%- endmacro %}


{#- Whether a column of this type can take what a query returns as the other type, where bare nulls are of any type. -#}
{% macro is_same_type_ignoring_void(type, queried) -%}
  {%- set any_type = '(?:[^,:<>()]+(?:[(][^)]*[)])?|[a-z]+<.*>)' -%}
  {%- set pattern = modules.re.sub(spark_bucketing.type_pattern(['void']), '\\g<1>any_type', queried | lower) -%}
  {{ return(modules.re.fullmatch(modules.re.escape(pattern) | replace('any_type', any_type), type | lower) is not none) }}
{%- endmacro %}


{#- The nearest type that Hive's metastore can hold, to be written in a cast. -#}
{% macro hive_type(type) -%}
  {%- set text = modules.re.sub(spark_bucketing.type_pattern(['timestamp_ntz']), '\\g<1>timestamp', spark_bucketing.without_void(type)) -%}
  {%- set text = modules.re.sub(spark_bucketing.type_pattern(['variant', 'geometry', 'geography', 'interval', 'time']) ~ '(?:[(][^)]*[)])?(?: [a-z ]+)?',
      '\\g<1>string', text) -%}
  {%- set text = modules.re.sub(' collate [A-Za-z0-9_]+', '', text) -%}
  {%- set state = namespace(text=text) -%}
  {%- for name in spark_bucketing.field_names(text) -%}
    {%- set state.text = state.text | replace(name ~ ':', modules.re.sub('[^A-Za-z0-9_]', '_', name) ~ ':') -%}
  {%- endfor -%}
  {{ return(state.text) }}
{%- endmacro %}
