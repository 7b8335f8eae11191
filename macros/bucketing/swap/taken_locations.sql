{#-
  Names of the tables beside the model's own in whose default place a directory lies, asked for once for each model. There is none
  but after a death, which one look tells.

  The script does nothing but look: what an error of the metastore says is lost within one (its handlers need an SQLSTATE, and
  such errors have none), so that statements which change anything stand alone.

  reads: whether rows of the table are going to be read: those of files that the session has not listed yet as well
-#}
{% macro taken_locations(reads=false) -%}
  {%- if '__spark_bucketing_taken' not in context and not spark_bucketing.has_scripts() -%}
    {%- do context.update({'__spark_bucketing_taken': spark_bucketing.explained_locations(this, reads)}) -%}
  {%- elif '__spark_bucketing_taken' not in context -%}
    {%- set names = [] -%}
    {%- for role in ['tmp', 'staged', 'input', 'backup'] -%}{%- do names.append(spark_bucketing.sibling(this, role).identifier | lower) -%}{%- endfor -%}
    {%- set schema = spark_bucketing.schema_location(this.schema) -%}
    {%- set script -%}
      begin
        declare exit handler for PATH_NOT_FOUND begin select '' as `found`; end;
        {%- if reads %}
        begin
          {#- That the table's own directory is missing is what the look is for. #}
          declare exit handler for PATH_NOT_FOUND begin select ''; end;
          refresh table {{ spark_bucketing.quote_relation(this) }};
        end;
        {%- endif %}
        {{ spark_bucketing.look_at_directory(schema ~ '{' ~ names | join(',') ~ '}') }};
        begin
          declare `__found` string default '';
          {%- for name in names %}
          begin
            declare exit handler for PATH_NOT_FOUND begin set `__found` = `__found`; end;
            {{ spark_bucketing.look_at_directory(schema ~ name) }};
            set `__found` = `__found` || {{ spark_bucketing.string_literal(name ~ '/') }};
          end;
          {%- endfor %}
          select `__found` as `found`;
        end;
      end
    {%- endset -%}
    {%- do context.update({'__spark_bucketing_taken': (run_query(script).rows[0][0] or '').split('/')}) -%}
  {%- endif -%}
  {{ return(context['__spark_bucketing_taken']) }}
{%- endmacro %}


{#- The same without a script. -#}
{% macro explained_locations(relation, reads) -%}
  {%- set names = [] -%}
  {%- for role in ['tmp', 'staged', 'input', 'backup'] -%}{%- do names.append(spark_bucketing.sibling(relation, role).identifier | lower) -%}{%- endfor -%}
  {%- set schema = spark_bucketing.schema_location(relation.schema) -%}
  {%- set taken = [] -%}
  {%- for name in (names if spark_bucketing.directory_exists(schema ~ '{' ~ names | join(',') ~ '}') else []) if spark_bucketing.directory_exists(schema ~ name) -%}
    {%- do taken.append(name) -%}
  {%- endfor -%}
  {%- set quoted = spark_bucketing.quote_relation(relation) -%}
  {#- Of a directory that is missing the look is to tell; a refresh of its table would fail. -#}
  {%- if reads and not spark_bucketing.planning_error('select * from ' ~ quoted) -%}
    {% do spark_bucketing.execute_sql('refresh table ' ~ quoted) %}
  {%- endif -%}
  {{ return(taken) }}
{%- endmacro %}


{#- SQL that fails with PATH_NOT_FOUND when there is no such directory; a pattern stands for several. -#}
{% macro look_at_directory(location) -%}
  select 1 from binaryFile.{{ spark_bucketing.quote_identifier(location) }} with ('recursiveFileLookup' = 'true') where false
{%- endmacro %}
