{{ config(materialized='bucketed_table', clustered_by=['k'], buckets=4, bucket_hash='spark') }}
select id * 2 as k, cast(id as string) as v from range(200)
