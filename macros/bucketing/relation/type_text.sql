{#- Returns the field names of all structs in a type. The type has the form that DESCRIBE prints: struct<a-b:int,c:array<string>> -#}
{% macro field_names(type) -%}
  {{ return(modules.re.findall('[<,] *([^:<>,]*):', type)) }}
{%- endmacro %}


{#- Returns a type as valid SQL. The macro adds backticks, because DESCRIBE prints the names of struct fields without backticks. -#}
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
  Returns a regular expression that finds these types in a type as DESCRIBE prints it, but never matches field names. The first group of the
  expression is the text before the match.

  names: list of type names or patterns
-#}
{% macro type_pattern(names) -%}
  {{ return('(^|[:<,] *)(?:' ~ names | join('|') ~ ')(?=$|[,>( ])(?![^,<>]*:)') }}
{%- endmacro %}


{#- Returns a type with `string` in place of `void`, the type of a bare null. Values of any type can be written as strings. -#}
{% macro without_void(type) -%}
  {{ return(modules.re.sub(spark_bucketing.type_pattern(['void']), '\\g<1>string', type)) }}
{%- endmacro %}


{#- Returns whether two types are equal, where each `void` in the query's type matches any type. -#}
{% macro is_same_type_ignoring_void(type, queried) -%}
  {%- set any_type = '(?:[^,:<>()]+(?:[(][^)]*[)])?|[a-z]+<.*>)' -%}
  {%- set pattern = modules.re.sub(spark_bucketing.type_pattern(['void']), '\\g<1>any_type', queried | lower) -%}
  {{ return(modules.re.fullmatch(modules.re.escape(pattern) | replace('any_type', any_type), type | lower) is not none) }}
{%- endmacro %}


{#- Returns the most similar type that the Hive metastore can store, so that the user can cast to it. -#}
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
