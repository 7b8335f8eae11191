{#-
  Returns the settings that are set explicitly in the session, with lower-case keys. Hooks may change settings. Therefore, the macro queries them once
  per model if the project has hooks, and otherwise once per run.
-#}
{% macro session_settings() -%}
  {%- set cache = spark_bucketing.run_cache() -%}
  {%- if 'hooks' not in cache -%}
    {%- set hooked = graph.nodes.values() | selectattr('config.pre-hook') | list + graph.nodes.values() | selectattr('config.post-hook') | list -%}
    {%- do cache.update({'hooks': hooked | length > 0}) -%}
  {%- endif -%}
  {%- set cache = context.setdefault('__spark_bucketing_session', {}) if cache.hooks else cache -%}
  {%- if 'settings' not in cache -%}
    {%- set settings = run_query('set') -%}
    {%- do cache.update({'settings': dict(zip(settings.columns[0].values() | map('lower'), settings.rows))}) -%}
  {%- endif -%}
  {{ return(cache.settings) }}
{%- endmacro %}
