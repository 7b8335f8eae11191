{#-
  Deletes the directories that publications without the session extension have recorded, except those that a partition uses again. Then removes the
  record.

  existing: dict, table_layout() of the table
-#}
{% macro delete_superseded(relation, existing) -%}
  {%- set partitions = [] -%}
  {%- for name in existing.superseded -%}
    {%- set values = spark_bucketing.values_of_partition(modules.re.sub(spark_bucketing.build_pattern(), '', name)) -%}
    {%- if values not in partitions -%}
      {%- do partitions.append(values) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- if partitions -%}
    {%- set used = spark_bucketing.used_directories(relation, partitions, existing) -%}
    {% do spark_bucketing.delete_partition_directories(existing.location, existing.superseded | reject('in', used) | list) %}
    {% do spark_bucketing.record_superseded(relation, existing, []) %}
  {%- endif -%}
{%- endmacro %}


{#-
  Deletes directories of partitions. Deletes a whole build if it has no other files.

  names: list of strings, from used_directories()
-#}
{% macro delete_partition_directories(location, names) -%}
  {%- set location = location.rstrip('/') -%}
  {%- set builds, deleted, paths = {}, [], [] -%}
  {%- for name in names -%}
    {%- if modules.re.match(spark_bucketing.build_pattern(), name) -%}
      {%- do builds.setdefault(name.split('/')[0], []).append(name) -%}
    {%- else -%}
      {%- do deleted.append(name) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- for build, directories in builds.items() if spark_bucketing.directory_exists(location ~ '/' ~ build) -%}
    {%- set others = spark_bucketing.relative_directories(spark_bucketing.directory_files_sql(location ~ '/' ~ build), location) | reject('in', directories) | list -%}
    {%- do deleted.extend(directories if others else [build]) -%}
  {%- endfor -%}
  {%- for name in deleted -%}
    {%- do paths.append(location ~ '/' ~ name) -%}
  {%- endfor -%}
  {%- for statement in spark_bucketing.delete_directories(paths) if paths -%}
    {% do spark_bucketing.execute_sql(statement) %}
  {%- endfor -%}
{%- endmacro %}


{#-
  Deletes the default directories that a publication left, and removes them from the record. The build still exists, so that after a crash the next run
  points the partitions to it again, and repeats this.

  left: list of strings, from used_directories()
-#}
{% macro delete_defaults(relation, left) -%}
  {%- set defaults = [] -%}
  {%- for name in left if not modules.re.match(spark_bucketing.build_pattern(), name) -%}
    {%- do defaults.append(name) -%}
  {%- endfor -%}
  {%- if defaults -%}
    {%- set now = spark_bucketing.table_layout(relation) -%}
    {% do spark_bucketing.delete_partition_directories(now.location, defaults) %}
    {% do spark_bucketing.record_superseded(relation, now, now.superseded | reject('in', defaults) | list) %}
  {%- endif -%}
{%- endmacro %}


{#-
  Records superseded directories in properties of the table, and removes earlier ones. Each property has few directories, because some metastores limit
  the length of a value. In a directory, Hive escapes a colon, but not a comma, which separates properties in SHOW TABLE EXTENDED.

  now: dict, current table_layout() of the table
  names: list of strings, from used_directories()
-#}
{% macro record_superseded(relation, now, names) -%}
  {%- set properties = {} -%}
  {%- for some in now.superseded | batch(20) -%}
    {%- do properties.update({'bucketing.superseded.' ~ loop.index0: ''}) -%}
  {%- endfor -%}
  {%- for some in names | batch(20) -%}
    {%- do properties.update({'bucketing.superseded.' ~ loop.index0: some | join(':') | replace(',', '%2C')}) -%}
  {%- endfor -%}
  {%- if properties -%}
    {% do spark_bucketing.execute_sql('alter table ' ~ spark_bucketing.quote_relation(relation) ~ ' set tblproperties ' ~ spark_bucketing.property_list(properties)) %}
  {%- endif -%}
{%- endmacro %}
