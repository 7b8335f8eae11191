{#-
  SQL for what Hive's UDF is given, so that it hashes a column as the writer does.
    date    Its day number, which is its hash: on the way through java.sql.Date, days before 1582 would shift.
    string  On the way through java.lang.String, bytes that are not UTF-8 would be replaced. Such a string goes in as its
            hash: that of its bytes as a binary, which Hive starts from 1 and a string's from 0, less that of as many
            zero bytes; the difference is cut to 32 bits, since a hash overflows on purpose.

  name: the column, quoted
  hash: name of the UDF
-#}
{% macro hive_udf_argument(name, type, hash) -%}
  {%- if type == 'date' -%}
    {{ return('unix_date(' ~ name ~ ')') }}
  {%- elif type == 'string' -%}
    {%- set bytes = hash ~ '(cast(' ~ name ~ ' as binary))' -%}
    {%- set zeros = hash ~ '(cast(repeat(chr(0), octet_length(' ~ name ~ ')) as binary))' -%}
    {%- set of_bytes = 'cast(shiftright(shiftleft(cast(' ~ bytes ~ ' as bigint) - ' ~ zeros ~ ', 32), 32) as int)' -%}
    {#- Before Spark 4.0 the way through java.lang.String tells. -#}
    {%- set valid = 'is_valid_utf8(' ~ name ~ ')' if not execute or spark_bucketing.spark_version() >= [4, 0] else 'encode(' ~ name ~ ", 'UTF-8') = cast(" ~ name ~ ' as binary)' -%}
    {{ return('if(' ~ valid ~ ', ' ~ hash ~ '(' ~ name ~ '), ' ~ of_bytes ~ ')') }}
  {%- else -%}
    {{ return(name) }}
  {%- endif -%}
{%- endmacro %}
