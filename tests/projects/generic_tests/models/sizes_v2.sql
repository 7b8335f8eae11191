{{ config(materialized='bucketed_table', clustered_by=['k'], buckets=8, bucket_hash='spark') }}
select id as k, id % 3 as size from range(200)
