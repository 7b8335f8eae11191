{#-
  Returns the layout of an existing table or view from the metastore: its bucket spec, partitioning, format, location and properties.

  SHOW TABLE EXTENDED prints lines "key: value". A comment or a view's text may contain similar lines. For keys that precede the comment and the
  view's text, the macro therefore searches only the text before them. For keys that follow them, it takes the last match.
-#}
{% macro table_layout(relation) -%}
  {%- if not spark_bucketing.known_relation(relation) -%}
    {% do spark_bucketing.existing_names(relation, [relation.identifier]) %}
  {%- endif -%}
  {%- set text = spark_bucketing.known_relation(relation) -%}
  {%- if not text -%}
    {% do exceptions.raise_compiler_error(spark_bucketing.error_message('The table or view `' ~ relation ~ '` does not exist any more.', none,
        'no other statement that drops it during the run', 'run the model again')) %}
  {%- endif -%}
  {%- set before = modules.re.split('\n(?:Comment|View Text|Table Properties): ', text, maxsplit=1)[0] -%}
  {%- set details = {} -%}
  {%- for key in ['Type', 'Provider', 'Num Buckets', 'Bucket Columns', 'Sort Columns'] -%}
    {%- do details.update({key: modules.re.findall('(?m)^' ~ key ~ ': (.*)$', before) | first | default('')}) -%}
  {%- endfor -%}
  {%- for key in ['Location', 'Serde Library', 'Partition Columns'] -%}
    {%- do details.update({key: modules.re.findall('(?m)^' ~ key ~ ': (.*)$', text) | last | default('')}) -%}
  {%- endfor -%}
  {%- set after = '\n(?:View Text|View Original Text|Collation|Table Properties|Statistics|Location|Serde Library|Schema|Partition Provider): ' -%}
  {%- set comment = modules.re.search('(?s)\nComment: (.*?)(?=' ~ after ~ ')', text) -%}
  {%- set properties = modules.re.findall('(?ms)^Table Properties: (\\[.*?\\])$', text) | last | default('') -%}
  {%- set property = {} -%}
  {%- for key in ['bucketing.build', 'bucketing.definition', 'bucketing_version'] -%}
    {%- do property.update({key: modules.re.findall('(?:^\\[|, )' ~ modules.re.escape(key) ~ '=([^],]*)', properties) | first | default(none)}) -%}
  {%- endfor -%}
  {%- set sizes = ['rows_per_file', 'target_file_size', 'num_files', 'files_per_partition', 'range_boundaries_from'] -%}
  {%- set file_sizes = dict(modules.re.findall('(?:^\\[|, )(bucketing\\.(?:' ~ sizes | join('|') ~ '))=([^],]*)', properties)) -%}
  {#- These properties contain JSON, because column names may contain commas. -#}
  {%- for setting in ['range_by', 'implicit_partition_by'] -%}
    {%- set names = modules.re.findall('bucketing\\.' ~ setting ~ '=(\\[.*?\\])(?=, |\\]$)', properties) | first -%}
    {%- do property.update({setting: fromjson(names, []) if names else []}) -%}
  {%- endfor -%}
  {%- set provider = details['Provider'] | lower -%}
  {%- set storage = (details['Serde Library'] ~ ' ' ~ provider) | lower -%}
  {{ return({
      'type': 'view' if 'VIEW' in details['Type'] else 'table',
      'external': details['Type'] == 'EXTERNAL',
      'location': details['Location'],
      'comment': comment.group(1) if comment else '',
      'build': property['bucketing.build'],
      'definition': property['bucketing.definition'],
      'file_sizes': file_sizes,
      'has_file_statistics': 'bucketing.range_by=' in properties or 'bucketing.implicit_partition_by=' in properties,
      'overwrites_dynamically': modules.re.search('(?m)^Storage Properties: .*partitionOverwriteMode=dynamic', text) is not none,
      'file_format': 'parquet' if 'parquet' in storage else ('orc' if 'orc' in storage else provider),
      'bucket_hash': spark_bucketing.stated_hash(property['bucketing_version'] or '1') if provider == 'hive' else 'spark',
      'bucketing_version': property['bucketing_version'] or '1',
      'states_version': property['bucketing_version'] is not none,
      'buckets': (details['Num Buckets'] or 0) | int,
      'clustered_by': spark_bucketing.quoted_names(details['Bucket Columns']),
      'sorted_by': spark_bucketing.quoted_names(details['Sort Columns']),
      'partition_by': spark_bucketing.quoted_names(details['Partition Columns']),
      'range_by': property.range_by,
      'implicit_partition_by': property.implicit_partition_by,
  }) }}
{%- endmacro %}
