{#-
  Returns the validated config of a model with one of the package's materializations, as a dict that maps each accepted key to its value or default.
  The macro interprets config_schema(), as spark_bucketing.config.validation does in Python. The cases in tests/cases/shared/config.yml test both.

  This macro runs no query, so dbt can call it while it parses the project.
-#}
{% macro model_config(node=model) -%}
  {%- set schema = spark_bucketing.config_schema() -%}
  {%- set materialized = node.config.get('materialized') -%}
  {%- set values = {'materialized': materialized} -%}
  {% do spark_bucketing.validate_config_keys(schema, node) %}
  {%- for key, spec in schema['keys'].items() -%}
    {%- set value = node.config.get(key) -%}
    {%- if materialized in spec.taken_by -%}
      {%- set unused = spec.of_dbt and node.config.get('incremental_strategy') | lower not in spec.strategies -%}
      {%- do values.update({key: value if unused else spark_bucketing.config_value(key, spec, value, node)}) -%}
    {%- elif value is not none and not spark_bucketing.is_ignored_key(spec, materialized, schema) -%}
      {% do spark_bucketing.raise_config_error(key, value, 'no `' ~ key ~ '`, which is a key of ' ~ spec.taken_by | join(' and '),
          "materialized='" ~ spec.taken_by[0] ~ "', or remove `" ~ key ~ '`', node=node) %}
    {%- endif -%}
  {%- endfor -%}
  {%- if 'sorted_by' in values and values.sorted_by is none -%}
    {%- do values.update({'sorted_by': values.clustered_by}) -%}
  {%- endif -%}
  {%- if values.incremental_strategy == 'merge' and not values.unique_key -%}
    {#- As in dbt, a merge without a unique key matches no rows. -#}
    {%- do values.update({'incremental_strategy': 'append'}) -%}
  {%- endif -%}
  {% do spark_bucketing.validate_config_values(values, schema, node) %}
  {{ return(values) }}
{%- endmacro %}


{#-
  Raises an error for a config key that resembles a key of this package. dbt accepts any key. Without this check, a misspelled key would be ignored
  without a message. If the model has the correct key too, the other one may be for another adapter, so the macro only warns.
-#}
{% macro validate_config_keys(schema, node) -%}
  {%- set names = [] -%}
  {%- set missing = [] -%}
  {%- for key, spec in schema['keys'].items() if node.config.get('materialized').split('_')[0] in spec.taken_by | join -%}
    {%- do names.append(key) -%}
  {%- endfor -%}
  {%- for name in names if schema['keys'][name].required and node.config.get(name) is none -%}
    {%- do missing.append(name) -%}
  {%- endfor -%}
  {%- for key, value in node.config.items() if value is not none and key not in schema['keys'] and key not in schema.other_keys -%}
    {%- set plain = key | lower | replace('-', '_') -%}
    {%- set known = namespace(key=none) -%}
    {%- for name in names if not known.key and (plain == name or plain in (schema['keys'][name].misspellings or [])) -%}
      {%- set known.key = name -%}
    {%- endfor -%}
    {#- A model without a required key is invalid in any case, so even a distant name is worth a suggestion. -#}
    {%- set meant = known.key or spark_bucketing.nearest_name(key, names, within=1) or spark_bucketing.nearest_name(key, missing) -%}
    {%- set text = "'" ~ value ~ "'" if value is string else value -%}
    {%- if meant and node.config.get(meant) is not none -%}
      {% do exceptions.warn('The config of model `' ~ node.name ~ '` has the key ' ~ key ~ '=' ~ text ~ ' besides `' ~ meant
          ~ '`. This package does not read it. Remove it, unless it is for another adapter.') %}
    {%- elif meant -%}
      {% do exceptions.raise_compiler_error(spark_bucketing.error_message(
          'Unknown key `' ~ key ~ '` in the config of model `' ~ node.name ~ '`; did you mean `' ~ meant ~ '`?',
          key ~ '=' ~ text, 'a config key of dbt or of this package', meant ~ '=' ~ text)) %}
    {%- endif -%}
  {%- endfor -%}
{%- endmacro %}


{#- Returns whether a materialization ignores a key instead of rejecting it. A key is ignored if it may be set for all models in a folder. -#}
{% macro is_ignored_key(spec, materialized, schema) -%}
  {{ return(materialized.split('_')[0] in spec.taken_by | join or not spec.taken_by | reject('in', schema.incremental) | list) }}
{%- endmacro %}


{#- Raises an error if the config contains a combination of values that the schema forbids. -#}
{% macro validate_config_values(values, schema, node) -%}
  {%- for rule in schema.disjoint if values[rule.key] and values[rule.other] -%}
    {%- set taken = values[rule.other] | map('lower') | list -%}
    {%- for name in values[rule.key] if name | lower in taken -%}
      {% do spark_bucketing.raise_config_error(rule.key, name, 'columns that are not in `' ~ rule.other ~ '`'
          ~ (': data files do not contain partition columns' if rule.other == 'partition_by' else ''),
          'remove `' ~ name ~ '` from `' ~ rule.key ~ '` or from `' ~ rule.other ~ '`', node=node) %}
    {%- endfor -%}
  {%- endfor -%}
  {%- for rule in schema.rules -%}
    {%- set holds = [] -%}
    {%- for key, negated, expected in rule.when -%}
      {#- `key.entry` names an entry in a mapping. -#}
      {%- set value = values.get(key) if '.' not in key else (values.get(key.split('.')[0]) or {}).get(key.split('.')[1]) -%}
      {%- set value = value | string if '.' in key and value is not none else value -%}
      {#- If the condition lists no values, it is true if the key has no value. The values 0 and false count as values. -#}
      {%- do holds.append((value in expected if expected else value in [none, '', [], {}]) != negated) -%}
    {%- endfor -%}
    {%- if false not in holds -%}
      {% do spark_bucketing.raise_config_error(rule.key, rule.found.format(**values), rule.expected.format(**values), rule.instead.format(**values), node=node) %}
    {%- endif -%}
  {%- endfor -%}
{%- endmacro %}
