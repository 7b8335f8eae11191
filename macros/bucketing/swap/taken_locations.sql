{#-
  Names of the tables, of the model's own and those beside it, in whose default place a directory lies, asked for once for each model.

  The script does nothing but look: what an error of the metastore says is lost within one (its handlers need an SQLSTATE, and
  such errors have none), so that statements which change anything stand alone.
-#}
{% macro taken_locations() -%}
  {%- if '__spark_bucketing_taken' not in context -%}
    {%- set relations = [this] -%}
    {%- for role in ['tmp', 'staged', 'input', 'backup'] -%}
      {%- do relations.append(spark_bucketing.sibling(this, role)) -%}
    {%- endfor -%}
    {%- set script -%}
      begin
        declare `__found` string default '';
        {%- for relation in relations %}
        begin
          declare exit handler for PATH_NOT_FOUND begin set `__found` = `__found`; end;
          select 1 from binaryFile.{{ spark_bucketing.quote_identifier(spark_bucketing.default_location(relation)) }} with ('recursiveFileLookup' = 'true') where false;
          set `__found` = `__found` || {{ spark_bucketing.string_literal(relation.identifier | lower ~ '/') }};
        end;
        {%- endfor %}
        select `__found`;
      end
    {%- endset -%}
    {%- do context.update({'__spark_bucketing_taken': (run_query(script).rows[0][0] or '').split('/')}) -%}
  {%- endif -%}
  {{ return(context['__spark_bucketing_taken']) }}
{%- endmacro %}
