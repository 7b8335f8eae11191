{#-
  Returns SQL for the argument that makes Hive's UDF return the same hash as the writer.
    date    The argument is the day number, which equals the hash. A conversion to java.sql.Date would shift days before 1582.
    string  A conversion to java.lang.String would replace bytes that are not valid UTF-8. For such a string, the argument is the string's hash as an
            int. This int is the hash of the string's bytes as binary, minus the hash of equally many zero bytes, because Hive starts a binary hash at
            1 and a string hash at 0. The difference is truncated to 32 bits.

  name: string, the quoted column
  hash: string, name of the UDF
-#}
{% macro hive_udf_argument(name, type, hash) -%}
  {%- if type == 'date' -%}
    {{ return('unix_date(' ~ name ~ ')') }}
  {%- elif type == 'string' -%}
    {%- set bytes = hash ~ '(cast(' ~ name ~ ' as binary))' -%}
    {%- set zeros = hash ~ '(cast(repeat(chr(0), octet_length(' ~ name ~ ')) as binary))' -%}
    {%- set of_bytes = 'cast(shiftright(shiftleft(cast(' ~ bytes ~ ' as bigint) - ' ~ zeros ~ ', 32), 32) as int)' -%}
    {#-
      Spark before 4.0 has no is_valid_utf8(). In older versions, the macro tests whether a round trip through java.lang.String changes the value.
    -#}
    {%- set valid = 'is_valid_utf8(' ~ name ~ ')' if not execute or spark_bucketing.spark_version() >= [4, 0] else 'encode(' ~ name ~ ", 'UTF-8') = cast(" ~ name ~ ' as binary)' -%}
    {{ return('if(' ~ valid ~ ', ' ~ hash ~ '(' ~ name ~ '), ' ~ of_bytes ~ ')') }}
  {%- else -%}
    {{ return(name) }}
  {%- endif -%}
{%- endmacro %}
