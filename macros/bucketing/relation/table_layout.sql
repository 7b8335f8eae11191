{#- What the metastore says about a table: its bucket spec, partitioning, format, place and owner. -#}
{% macro table_layout(relation) -%}
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
      'evolved': modules.re.search('(?:^\\[|, )bucketing[.]evolved=true', details.get('Table Properties', '')) is not none,
      'buckets': (details.get('Num Buckets') or 0) | int,
      'clustered_by': spark_bucketing.quoted_names(details.get('Bucket Columns', '')),
      'sorted_by': spark_bucketing.quoted_names(details.get('Sort Columns', '')),
      'partition_by': partition_by,
  }) }}
{%- endmacro %}
