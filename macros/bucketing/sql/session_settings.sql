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
    {#- run_query() adds the query comment. If `append` is true, the comment follows SET, which Spark rejects. -#}
    {%- set settings = {} -%}
    {%- for row in adapter.add_query('set', auto_begin=false)[1].fetchall() -%}
      {%- do settings.update({row[0] | lower: row}) -%}
    {%- endfor -%}
    {%- do cache.update({'settings': settings}) -%}
  {%- endif -%}
  {{ return(cache.settings) }}
{%- endmacro %}
