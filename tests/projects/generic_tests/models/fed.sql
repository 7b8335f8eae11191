{{ config(materialized='bucketed_incremental', clustered_by=['k'], buckets=4, sorted_by=[]) }}
select k, count(*) as n from {{ ref('keys') }}
{% if is_incremental() %}
  where k > (select max(k) from {{ this }})
{% endif %}
group by k
