{{ config(materialized='view') }}
select id as k from range(5)
