{#- What the metastore says about a table: its bucket spec, partitioning, format, place and owner. -#}
{% macro table_layout(relation) -%}
  {%- set known = spark_bucketing.known_relation(relation) -%}
  {%- if known -%}
    {{ return(spark_bucketing.layout_of_details(spark_bucketing.details_of_text(known))) }}
  {%- endif -%}
  {%- set details = {} -%}
  {%- set partition_by = [] -%}
  {%- set state = namespace(section='columns') -%}
  {%- for row in run_query('describe table extended ' ~ spark_bucketing.quote_relation(relation)).rows -%}
    {%- set key = row[0] or '' -%}
    {%- if key.startswith('# ') -%}
      {%- set state.section = key if key != '# col_name' else state.section -%}
    {%- elif not key -%}
      {%- set state.section = 'none' -%}
    {%- elif state.section == '# Partition Information' -%}
      {%- do partition_by.append(key) -%}
    {%- elif state.section == '# Detailed Table Information' -%}
      {%- do details.update({key: row[1]}) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- do details.update({'partition_by': partition_by}) -%}
  {{ return(spark_bucketing.layout_of_details(details)) }}
{%- endmacro %}


{#-
  The lines "key: value" of SHOW TABLE EXTENDED. A comment and the text of a view may have lines of their own that look so; they come
  between what is unique before them and what is last after them.
-#}
{% macro details_of_text(text) -%}
  {%- set details = {} -%}
  {%- for key in ['Created Time', 'Type', 'Provider', 'Num Buckets', 'Bucket Columns', 'Sort Columns'] -%}
    {%- set before = modules.re.split('\n(?:Comment|View Text|Table Properties): ', text, maxsplit=1)[0] -%}
    {%- do details.update({key: modules.re.findall('(?m)^' ~ key ~ ': (.*)$', before) | first | default('')}) -%}
  {%- endfor -%}
  {%- for key in ['Location', 'Serde Library', 'Partition Columns'] -%}
    {%- do details.update({key: modules.re.findall('(?m)^' ~ key ~ ': (.*)$', text) | last | default('')}) -%}
  {%- endfor -%}
  {%- set after = '\n(?:View Text|View Original Text|Collation|Table Properties|Statistics|Location|Serde Library|Schema|Partition Provider): ' -%}
  {%- set comment = modules.re.search('(?s)\nComment: (.*?)(?=' ~ after ~ ')', text) -%}
  {%- do details.update({
      'Comment': comment.group(1) if comment else '',
      'Table Properties': modules.re.findall('(?ms)^Table Properties: (\\[.*?\\])$', text) | last | default(''),
      'partition_by': spark_bucketing.quoted_names(details['Partition Columns']),
  }) -%}
  {{ return(details) }}
{%- endmacro %}


{% macro layout_of_details(details) -%}
  {%- set provider = details.get('Provider', '') | lower -%}
  {%- set storage = (details.get('Serde Library', '') ~ ' ' ~ provider) | lower -%}
  {{ return({
      'type': 'view' if 'VIEW' in details.get('Type', '') else 'table',
      'external': details.get('Type') == 'EXTERNAL',
      'location': details.get('Location'),
      'comment': details.get('Comment', ''),
      'build': modules.re.findall('bucketing[.]build=(build-[0-9]+)', details.get('Table Properties', '')) | first | default(none),
      'identity': modules.re.findall('bucketing[.]build=(build-[0-9]+)', details.get('Table Properties', '')) | first | default(details.get('Created Time', '')),
      'replaces': modules.re.findall('(?:^\\[|, )bucketing[.]replaces=([^],]*)', details.get('Table Properties', '')) | first | default(none),
      'staging': modules.re.findall('(?:^\\[|, )bucketing[.]staging=([^],]*)', details.get('Table Properties', '')) | first | default(none),
      'empties': 'bucketing.staging_empties=true' in details.get('Table Properties', ''),
      'file_format': 'parquet' if 'parquet' in storage else ('orc' if 'orc' in storage else provider),
      'bucket_hash': 'hive' if provider == 'hive' else 'spark',
      'bucketing_version': modules.re.findall('(?:^\\[|, )bucketing_version=([^],]*)', details.get('Table Properties', '')) | first | default('1'),
      'buckets': (details.get('Num Buckets') or 0) | int,
      'clustered_by': spark_bucketing.quoted_names(details.get('Bucket Columns', '')),
      'sorted_by': spark_bucketing.quoted_names(details.get('Sort Columns', '')),
      'partition_by': details['partition_by'],
  }) }}
{%- endmacro %}
