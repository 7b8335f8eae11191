{#-
  The settings of the session that somebody has set, with lower-case keys. A hook may SET them, and then they stay for the models
  after it: only in a project without hooks they are asked for once.
-#}
{% macro session_settings() -%}
  {%- set cache = spark_bucketing.run_cache() -%}
  {%- if 'hooks' not in cache -%}
    {%- set hooked = graph.nodes.values() | selectattr('config.pre-hook') | list + graph.nodes.values() | selectattr('config.post-hook') | list -%}
    {%- do cache.update({'hooks': hooked | length > 0}) -%}
  {%- endif -%}
  {%- if cache.hooks or 'settings' not in cache -%}
    {%- set settings = run_query('set') -%}
    {%- do cache.update({'settings': dict(zip(settings.columns[0].values() | map('lower'), settings.rows))}) -%}
  {%- endif -%}
  {{ return(cache.settings) }}
{%- endmacro %}
